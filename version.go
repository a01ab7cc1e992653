// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt

// Version is the version of this module: README.md states it, commands print it, models name it.
const Version = "0.3.0"
