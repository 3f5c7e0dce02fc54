//===----------------------------------------------------------------------===//
// openduck/write_column.hpp: a column of a NATIVE payload as it is gathered (docs/protocol.md)
//===----------------------------------------------------------------------===//
#pragma once

#include "common/throw.hpp"
#include "duckdb.hpp"

extern "C" {
#include "arrow/ipc_write.h"
#include "base/buf.h"
}

namespace openduck {
using namespace duckdb; // NOLINT

//! A buffer of a payload starts at a multiple of this.
constexpr idx_t NATIVE_PADDING = 64;

inline idx_t NativePad(idx_t size) {
	return (size + NATIVE_PADDING - 1) / NATIVE_PADDING * NATIVE_PADDING;
}

//! Bytes that grow.
class NativeBuffer {
public:
	NativeBuffer() = default;
	NativeBuffer(const NativeBuffer &) = delete;
	~NativeBuffer() {
		od_buf_release(&buf);
	}
	//! Room for MORE bytes, of which the caller says with Add how many it has filled.
	uint8_t *Reserve(idx_t more) {
		od_error err = {};
		ThrowIfFailed(od_buf_reserve(&buf, more, &err), err);
		return buf.data + buf.len;
	}
	void Add(idx_t count) {
		buf.len += count;
	}
	idx_t Size() const {
		return buf.len;
	}
	const uint8_t *Data() const {
		return buf.data;
	}
	void Clear() {
		buf.len = 0;
	}

private:
	od_buf buf = {nullptr, 0, 0};
};

//! Rows of a vector: those that SEL lists, or COUNT ones from FIRST on.
struct NativeRows {
	const SelectionVector *sel;
	idx_t first;
	idx_t count;

	idx_t Get(idx_t i) const {
		return sel ? sel->get_index(first + i) : first + i;
	}
};

//! One column, or a part of a nested one. One thread.
class NativeColumn {
public:
	//! With fewer rows at once no text is sent as indices, and never more columns: each dictionary needs a row of the payload.
	static constexpr idx_t MIN_INDEXED = 256;

	explicit NativeColumn(const LogicalType &type);

	//! Whether ROWS of VECTOR can be appended to what is there: not once a dictionary would have to be given up.
	bool Takes(Vector &vector, const NativeRows &rows) const;
	//! Appends ROWS of VECTOR, which holds SIZE. MAY_INDEX: as indices, if it has a dictionary.
	void Append(Vector &vector, idx_t size, const NativeRows &rows, bool may_index = false);
	idx_t Measure(Vector &vector, idx_t size, const NativeRows &rows);
	idx_t BufferBytes() const;
	void Layout(vector<od_ipc_node> &nodes, vector<od_ipc_span> &spans, idx_t &at) const;
	//! Writes the buffers to where SPAN and what follows it say; SPAN is moved on.
	void Write(uint8_t *body, const od_ipc_span *&span) const;
	void Clear();
	bool Indexed() const {
		return indexed;
	}
	//! Of an indexed column: where each of its dictionary's values ends in Values.
	const vector<int32_t> &ValueEnds() const {
		return value_ends;
	}
	const NativeBuffer &Values() const {
		return text;
	}

private:
	enum class Kind : uint8_t { FIXED, TEXT, LIST, ARRAY, STRUCT };

	//! The rows of the child that ROWS consist of; SEL holds them if they are not a range.
	NativeRows ListRows(const UnifiedVectorFormat &format, const NativeRows &rows, SelectionVector &sel) const;
	NativeRows ArrayRows(const UnifiedVectorFormat &format, const NativeRows &rows, SelectionVector &sel) const;

	void AppendValidity(const UnifiedVectorFormat &format, const NativeRows &rows);
	void AppendFixed(const UnifiedVectorFormat &format, const NativeRows &rows);
	void AppendText(const UnifiedVectorFormat &format, const NativeRows &rows);
	bool HasSmallDictionary(Vector &vector, const NativeRows &rows) const;
	bool IsCurrentDictionary(Vector &vector) const;
	void AppendDictionary(Vector &vector);
	void AppendIndices(Vector &vector, const NativeRows &rows);
	void AppendList(const UnifiedVectorFormat &format, const NativeRows &rows);
	int32_t *AppendOffsets(idx_t more);
	vector<pair<const void *, idx_t>> Buffers() const;

	Kind kind;
	bool all_null = false;
	//! Bytes of a value; elements of an ARRAY.
	idx_t width = 0;
	idx_t count = 0;
	idx_t nulls = 0;
	//! A bit for each row if there are NULLs; bits behind the last row are set.
	vector<uint8_t> valid_bits;
	//! Values, or offsets.
	NativeBuffer data;
	//! What the offsets of TEXT point into; of an indexed one, the values of its dictionaries.
	NativeBuffer text;
	//! The last offset.
	idx_t end = 0;
	//! TEXT of which DATA holds indices, each 16 bits.
	bool indexed = false;
	vector<int32_t> value_ends;
	//! The dictionary appended last, as DuckDB names it, and the first of its values.
	string dictionary;
	idx_t first_value = 0;
	vector<unique_ptr<NativeColumn>> children;
};

} // namespace openduck
