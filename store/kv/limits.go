package kv

import (
	"cmp"
	"context"
	"fmt"
)

// Bounded returns a context whose Updates may write no more than bytesMax bytes each, which is at
// most [UpdateBytesMax]. An engine can commit more of them together.
func Bounded(ctx context.Context, bytesMax int) context.Context {
	return context.WithValue(ctx, boundKey, bytesMax)
}

// BudgetOf returns the full budget of an Update with ctx.
func BudgetOf(ctx context.Context) Budget {
	bytesMax, _ := ctx.Value(boundKey).(int)
	return Budget{bytesMax: bytesMax}
}

// Budget counts one Update's writes against the limits of contract line 6. Engines
// share it, so that limits are the same everywhere. The zero value is a full budget.
type Budget struct {
	writes, bytes int
	bytesMax      int // 0 means UpdateBytesMax
	class         Class
}

// BytesMax returns how many bytes all writes may have.
func (b *Budget) BytesMax() int { return cmp.Or(b.bytesMax, UpdateBytesMax) }

// Spend counts one Set of value under key, or one Delete if value is nil. If the write
// exceeds a limit, it counts nothing and returns an error that matches [ErrTooLarge].
// It panics on an invalid key: an empty one, or one that begins with [ReservedPrefix].
func (b *Budget) Spend(key, value []byte) error {
	if len(key) == 0 {
		panic("kv: empty key")
	}
	if key[0] == ReservedPrefix {
		panic("kv: key begins with the reserved prefix")
	}
	switch size := len(key) + len(value); {
	case len(key) > KeySizeMax:
		return fmt.Errorf("%w: a key of %d bytes, at most %d", ErrTooLarge, len(key), KeySizeMax)
	case len(value) > ValueSizeMax:
		return fmt.Errorf("%w: a value of %d bytes, at most %d", ErrTooLarge, len(value), ValueSizeMax)
	case b.writes+1 > UpdateWritesMax:
		return fmt.Errorf("%w: at most %d writes in one update", ErrTooLarge, UpdateWritesMax)
	case b.bytes+size > b.BytesMax():
		return fmt.Errorf("%w: at most %d bytes in one update", ErrTooLarge, b.BytesMax())
	default:
		b.writes++
		b.bytes += size
		return nil
	}
}

// Written is [Txn.Written].
func (b *Budget) Written() int { return b.bytes }

// As is [Txn.As].
func (b *Budget) As(c Class) Class {
	b.class = max(b.class, c)
	return b.class
}
