// Package shard adds up the records of a fit in several processes, on several machines, that have
// nothing in common but a folder. The Driver fits, each Worker adds up its part of the records:
//
//	// on one machine                                    // on machine i of k
//	d, err := shard.NewDriver(ctx, folder, f,            w := &shard.Worker{Folder: folder, Shard: i, Shards: k,
//		shard.Options{Shards: k})                              Source: f}
//	defer d.Close()                                      err := w.Serve(ctx)
//	data, err := erm.Open(d, bounds)
//
// In every pass the driver writes its query to the file task, and every worker writes the sums over its
// records to i-of-k.sums; files appear whole, by a change of name. Before the first pass, which a fit
// pays for, all workers have to answer that they are there and have the same records. Sums that are
// missing after Options.Wait, that two files hold, that are damaged, or that answer another
// task than that of the pass are an error of the pass, so that no release is made. A worker may be started
// again at any time.
//
// The folder is as secret as the records: the query is a function of the records and of the noise, which
// together with the released model gives the noise away. It has mode 0700, its files 0600, and the driver
// deletes them, the query after its pass and the rest when it is closed. A driver that is killed leaves them: delete the folder.
// The driver and the workers run as the same user. There is no password: whoever can write to the folder is
// believed, which certificates list as erm.TrustedCluster.
package shard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/wholefile"
)

// ErrShard reports files that are not those of the pass that is under way.
var ErrShard = errors.New("shard: invalid files in the folder")

const (
	taskName   = "task"
	driverName = "driver"
	sumsSuffix = ".sums"
	version    = 1
)

// Range returns the records of shard i of k, i in 1, …, k: parts of nearly the same size that begin at
// multiples of erm.Chunk, the last ones empty if there are fewer chunks than shards. It panics if there is no
// such shard.
func Range(records, i, k int) (first, count int) {
	if records < 0 || i < 1 || i > k {
		panic("shard: Range of a shard that does not exist")
	}
	chunks := (records + erm.Chunk - 1) / erm.Chunk
	at := func(i int) int { return min(records, (chunks/k*i+min(i, chunks%k))*erm.Chunk) }
	if first, count = at(i-1), at(i)-at(i-1); count == 0 {
		first = 0
	}
	return first, count
}

// task is what the driver asks.
type task struct {
	Version  int    `json:"shard"`
	Fit      string `json:"fit"`  // random, the same in all passes
	Pass     int    `json:"pass"` // 0 asks for an answer without sums
	Shards   int    `json:"shards"`
	Records  int    `json:"records"`
	Features int    `json:"features"`
	Data     string `json:"data"`
	Query    []byte `json:"query,omitempty"`

	id string // of the bytes of the file
}

// answer is what workers say.
type answer struct {
	Version int    `json:"sums"`
	Task    string `json:"task"` // its id
	Shards  int    `json:"shards"`
	Have    []int  `json:"have"` // shards, increasing
	Sums    []byte `json:"data,omitempty"`
	Error   string `json:"error,omitempty"`
}

// check refuses answers that no worker gives.
func (a *answer) check() error {
	if a.Version != version {
		return fmt.Errorf("it has version %d, want %d", a.Version, version)
	}
	for k, i := range a.Have {
		if i < 1 || i > a.Shards || k > 0 && i <= a.Have[k-1] {
			return fmt.Errorf("it names a shard %d of %d twice, out of order or out of range", i, a.Shards)
		}
	}
	if len(a.Have) == 0 {
		return errors.New("it names no shard")
	}
	return nil
}

// merge adds b, the answer of other shards to the same task, to a, unless that is nil.
func merge(a, b *answer) (*answer, error) {
	switch {
	case a == nil:
		return b, nil
	case a.Task != b.Task || a.Shards != b.Shards:
		return nil, errors.New("they answer different tasks")
	case a.Error != "" || b.Error != "":
		return nil, errors.New("one of them reports a failure")
	case (a.Sums == nil) != (b.Sums == nil):
		return nil, errors.New("only one of them has sums")
	}
	for _, i := range b.Have {
		if slices.Contains(a.Have, i) {
			return nil, fmt.Errorf("both have shard %d of %d", i, a.Shards)
		}
	}
	if a.Sums != nil {
		var x, y erm.Sums
		if err := errors.Join(x.UnmarshalBinary(a.Sums), y.UnmarshalBinary(b.Sums)); err != nil {
			return nil, err
		}
		if err := x.Merge(&y); err != nil {
			return nil, err
		}
		var err error
		if a.Sums, err = x.MarshalBinary(); err != nil {
			return nil, err
		}
	}
	a.Have = append(slices.Clone(a.Have), b.Have...)
	slices.Sort(a.Have)
	return a, nil
}

// Merge joins files of sums, which answer the same task for different shards, to one: out. What Driver makes
// of it is what it makes of the files.
func Merge(out string, files ...string) error {
	if len(files) == 0 {
		return fmt.Errorf("%w: no file to merge", ErrShard)
	}
	var all *answer
	for _, path := range files {
		a, err := readAnswer(path)
		if err != nil {
			return err
		}
		if all, err = merge(all, a); err != nil {
			return fmt.Errorf("%w: %s and those before it: %w", ErrShard, path, err)
		}
	}
	_, err := write(out, all)
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// write writes v as a line of JSON and a line with its checksum, for this user only, whole or not at all.
// It returns a hash of the text.
func write(path string, v any) (id string, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("shard: %w", err)
	}
	text = fmt.Appendf(text, "\n%08x\n", crc32.Checksum(text, castagnoli))
	if err := wholefile.Write(path, text, 0o600); err != nil {
		return "", fmt.Errorf("shard: %w", err)
	}
	return identify(text), nil
}

func identify(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// read reads what write wrote.
func read(path string, v any) (id string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("shard: %w", err)
	}
	body, sum, ok := bytes.Cut(text, []byte("\n"))
	if !ok || string(sum) != fmt.Sprintf("%08x\n", crc32.Checksum(body, castagnoli)) {
		return "", fmt.Errorf("%w: %s does not have its checksum: it was cut off or changed", ErrShard, path)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrShard, path, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("%w: %s has more than one value", ErrShard, path)
	}
	return identify(text), nil
}

func readAnswer(path string) (*answer, error) {
	a := &answer{}
	if _, err := read(path, a); err != nil {
		return nil, err
	}
	if err := a.check(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrShard, path, err)
	}
	return a, nil
}

func readTask(folder string) (*task, error) {
	t := &task{}
	path := filepath.Join(folder, taskName)
	id, err := read(path, t)
	if err != nil {
		return nil, err
	}
	if t.Version != version {
		return nil, fmt.Errorf("%w: %s has version %d, want %d", ErrShard, path, t.Version, version)
	}
	t.id = id
	return t, nil
}

func sumsName(i, k int) string { return strconv.Itoa(i) + "-of-" + strconv.Itoa(k) + sumsSuffix }

// pause returns how long to wait before the next look at the folder.
func pause(waited time.Duration) time.Duration {
	return min(max(waited/20, 2*time.Millisecond), time.Second)
}
