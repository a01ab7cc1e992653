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
	"slices"
	"strconv"
	"strings"
)

// shape is what the header says of the data.
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

// parseHeader reads the Python dictionary of a header, such as
//
//	{'descr': '<f8', 'fortran_order': False, 'shape': (1000, 13), }
func parseHeader(text string) (s shape, err error) {
	p := parser{rest: text}
	seen := map[string]bool{}
	p.want("{")
	for p.err == nil && !p.take("}") {
		key := p.text()
		p.want(":")
		if seen[key] {
			p.fail("the key %.20q twice", key)
		}
		seen[key] = true
		switch key {
		case "descr":
			switch d := p.text(); d {
			case "<f8":
				s.item = 8
			case "<f4":
				s.item = 4
			default:
				p.fail("numbers of the type %.20q, want '<f8' or '<f4', which astype(\"<f8\") makes", d)
			}
		case "fortran_order":
			if p.take("True") {
				p.fail("Fortran order, want C order, which numpy.ascontiguousarray makes")
			} else {
				p.want("False")
			}
		case "shape":
			p.want("(")
			s.records = p.number()
			p.want(",")
			s.columns = p.number()
			p.take(",")
			if !p.take(")") {
				p.fail(badShape)
			}
		default:
			p.fail("the unknown key %.20q", key)
		}
		if !p.take(",") {
			p.want("}")
			break
		}
	}
	if p.err == nil && (len(seen) != 3 || strings.TrimSpace(p.rest) != "") {
		p.fail("not just descr, fortran_order and shape")
	}
	if p.err != nil {
		return shape{}, p.err
	}
	return s, s.check()
}

const badShape = "a shape that is no pair of whole numbers in range, want (records, columns)"

// parser reads tokens and keeps the first error.
type parser struct {
	rest string
	err  error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("its header has "+format, args...)
	}
}

// take reports whether the next token is s, and takes it.
func (p *parser) take(s string) bool {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	if p.err != nil || !strings.HasPrefix(p.rest, s) {
		return false
	}
	p.rest = p.rest[len(s):]
	return true
}

func (p *parser) want(s string) {
	if !p.take(s) {
		p.fail("something else where %q should be", s)
	}
}

// text takes a string in quotes, without escapes.
func (p *parser) text() string {
	quote := "'"
	if !p.take(quote) {
		quote = `"`
		p.want(quote)
	}
	s, rest, ok := strings.Cut(p.rest, quote)
	if !ok || strings.ContainsAny(s, "\\\n") {
		p.fail("a text without an end")
		return ""
	}
	p.rest = rest
	return s
}

func (p *parser) number() int {
	p.take("") // blanks
	digits := p.rest[:len(p.rest)-len(strings.TrimLeft(p.rest, "0123456789"))]
	n, err := strconv.Atoi(digits)
	if err != nil {
		p.fail(badShape)
	}
	p.rest = p.rest[len(digits):]
	return n
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

// blocksOf returns the number of blocks of so many bytes.
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
		return nil, fmt.Errorf("its sidecar %s %w; write the file again, or remove the sidecar to read it without "+
			"checksums", path, err)
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
