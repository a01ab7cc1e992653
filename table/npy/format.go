// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package npy

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/bits"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// shape is the description of the data in the header.
type shape struct {
	records, columns int // at least 0 and 2
	item             int // bytes of a number, 8 or 4
}

func (s shape) bytes() int64 { return int64(s.records) * int64(s.columns) * int64(s.item) }

func (s shape) dtype() string { return fmt.Sprintf("<f%d", s.item) }

// check refuses shapes that no file has.
func (s shape) check() error {
	if s.columns < 2 || s.columns > maxColumns {
		return fmt.Errorf("its shape has %d columns, want at least a feature and a label, and at most %d", s.columns,
			maxColumns)
	}
	hi, lo := bits.Mul64(uint64(s.records), uint64(s.columns))
	if hi != 0 || lo > math.MaxInt64/uint64(s.item)-maxHeader || lo*8 > math.MaxInt {
		return errors.New("its shape has more numbers than can be addressed")
	}
	return nil
}

const (
	magic      = "\x93NUMPY"
	maxHeader  = 1 << 16
	maxColumns = 1 << 24
	headerSize = 128 // of files that are written here, enough for every shape
)

// readHeader reads the header and returns the shape and the offset of the data.
func readHeader(r io.Reader) (shape, int64, error) {
	var start [12]byte
	if _, err := io.ReadFull(r, start[:8]); err != nil || string(start[:6]) != magic {
		return shape{}, 0, errors.New(`it does not begin as the files of numpy.save do, want "\x93NUMPY"`)
	}
	from := 12
	switch version := start[6]; version {
	case 1:
		from = 10
	case 2, 3:
	default:
		return shape{}, 0, fmt.Errorf("it has version %d of the format, want 1, 2 or 3", version)
	}
	if _, err := io.ReadFull(r, start[8:from]); err != nil {
		return shape{}, 0, errShort
	}
	size := binary.LittleEndian.Uint32(start[8:]) // the bytes from 10 on are 0 in version 1
	if size > maxHeader {
		return shape{}, 0, fmt.Errorf("its header is longer than %d bytes", maxHeader)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return shape{}, 0, errShort
	}
	s, err := parseHeader(string(text))
	return s, int64(from) + int64(size), err
}

var errShort = errors.New("it ends inside of its header")

// entry matches an entry of the Python dictionary of a header, pair the value of its shape.
var (
	entry = regexp.MustCompile(`^\s*'(\w*)'\s*:\s*('[^'\\]*'|\([^()]*\)|\w+)\s*(,\s*}?|})`)
	pair  = regexp.MustCompile(`^\(\s*(\d+)\s*,\s*(\d+)\s*,?\s*\)$`)
)

// parseHeader reads the dictionary of a header, such as
//
//	{'descr': '<f8', 'fortran_order': False, 'shape': (1000, 13), }
func parseHeader(text string) (s shape, err error) {
	wrong := func(format string, args ...any) (shape, error) {
		return shape{}, fmt.Errorf("its header has "+format, args...)
	}
	rest, begun := strings.CutPrefix(strings.TrimSpace(strings.ReplaceAll(text, `"`, "'")), "{")
	seen := map[string]bool{}
	for end := false; !end; {
		m := entry.FindStringSubmatch(rest)
		if m == nil || !begun {
			return wrong("no entry such as 'descr': '<f8', where %.20q stands", rest)
		}
		rest, end = rest[len(m[0]):], strings.HasSuffix(m[0], "}")
		switch key, value := m[1], m[2]; {
		case seen[key]:
			return wrong("the key %.20q twice", key)
		case key == "descr" && value == "'<f8'":
			s.item = 8
		case key == "descr" && value == "'<f4'":
			s.item = 4
		case key == "descr":
			return wrong("numbers of the type %.20q, want '<f8' or '<f4', which astype(\"<f8\") makes", strings.Trim(value, "'"))
		case key == "fortran_order" && value != "False":
			return wrong("Fortran order, want C order, which numpy.ascontiguousarray makes")
		case key == "shape":
			n := append(pair.FindStringSubmatch(value), "", "", "")
			var one, two error
			s.records, one = strconv.Atoi(n[1])
			if s.columns, two = strconv.Atoi(n[2]); one != nil || two != nil {
				return wrong("a shape that is no pair of whole numbers in range, want (records, columns)")
			}
		case key != "fortran_order":
			return wrong("the unknown key %.20q", key)
		}
		seen[m[1]] = true
	}
	if len(seen) != 3 || rest != "" {
		return wrong("not just descr, fortran_order and shape")
	}
	return s, s.check()
}

// header returns the header of a shape, of headerSize bytes.
func (s shape) header() []byte {
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d), }", s.dtype(), s.records, s.columns)
	b := make([]byte, headerSize)
	copy(b, magic+"\x01\x00")
	binary.LittleEndian.PutUint16(b[8:], headerSize-10)
	copy(b[10:], fmt.Sprintf("%-*s\n", headerSize-11, text))
	return b
}

// sidecar is the file beside the data.
type sidecar struct {
	Version int      `json:"npy"`
	Records int      `json:"records"`
	DType   string   `json:"dtype"`
	Columns []string `json:"columns"`
	Label   string   `json:"label"`
	Schema  string   `json:"schema,omitempty"`
	Block   int      `json:"block"`
	CRC     []uint32 `json:"crc32c"`
}

// blocksOf returns the number of blocks of the given number of bytes.
func blocksOf(bytes int64) int { return int((bytes + blockSize - 1) / blockSize) }

// readSidecar reads the sidecar of data with a shape, nil if there is none.
func readSidecar(path string, s shape) (*sidecar, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var side sidecar
	most := 16*int64(blocksOf(s.bytes())) + int64(s.columns)<<10 + 1<<20
	dec := json.NewDecoder(io.LimitReader(f, most))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&side); err != nil {
		return nil, fmt.Errorf("its sidecar %s is no description of it: %w", path, err)
	}
	if err := side.check(s); err != nil {
		return nil, fmt.Errorf("its sidecar %s %w; write the file again, or remove the sidecar to read it without checksums",
			path, err)
	}
	return &side, nil
}

// check compares the sidecar with the header.
func (c *sidecar) check(s shape) error {
	if c.Version != 1 {
		return fmt.Errorf("has version %d, want 1", c.Version)
	}
	if c.Records != s.records || len(c.Columns) != s.columns || c.DType != s.dtype() {
		return errors.New("is that of another file: number of records, columns or type of numbers differ")
	}
	if c.Block != blockSize || len(c.CRC) != blocksOf(s.bytes()) {
		return fmt.Errorf("does not have a checksum for each block of %d bytes", blockSize)
	}
	return checkColumns(c.Columns, c.Label)
}

// checkColumns refuses names that are not distinct, and a label that is none of them.
func checkColumns(columns []string, label string) error {
	if len(columns) < 2 {
		return fmt.Errorf("has %d columns, want at least a feature and a label", len(columns))
	}
	seen := make(map[string]bool, len(columns))
	for k, c := range columns {
		if c == "" || seen[c] {
			return fmt.Errorf("has the name %q of column %d twice or empty, want different names", c, k+1)
		}
		seen[c] = true
	}
	if !slices.Contains(columns, label) {
		return fmt.Errorf("has the label %q, which is none of its columns: want one of them", label)
	}
	return nil
}
