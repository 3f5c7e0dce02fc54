//===----------------------------------------------------------------------===//
// openduck/scan_decode.hpp: a NATIVE payload (docs/protocol.md) read into DuckDB's vectors without copies
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"

extern "C" {
#include "arrow/ipc_read.h"
#include "base/buf.h"
}

namespace openduck {
using namespace duckdb; // NOLINT

//! Keeps a received message alive for the vectors that point into it.
class MessageBuffer : public VectorBuffer {
public:
	//! Takes MESSAGE.
	explicit MessageBuffer(od_msg *message_p) : VectorBuffer(VectorBufferType::OPAQUE_BUFFER), message(message_p) {
	}
	~MessageBuffer() override {
		od_msg_unref(message);
	}

private:
	od_msg *message;
};

//! Reads the payloads of one stream, one thread at a time; a stream may be read by several readers, each with its own
//! payloads. What a payload holds is checked before it is shown: a lying server is an IOException, never a crash.
class NativeReader {
public:
	//! NAMES and TYPES are what was bound; the stream's schema must be the same. SOURCE is for messages ("cloud.t").
	NativeReader(vector<string> names, vector<LogicalType> types);
	~NativeReader();
	NativeReader(const NativeReader &) = delete;

	//! Begins a payload; takes OWNER, which holds it.
	void Start(od_msg *owner, od_slice payload);
	//! Rows left in the payload, at most one vector's worth; 0 at its end.
	idx_t Next();
	//! Column COLUMN of the rows that Next told, into OUT (a flat vector of the bound type, just reset).
	void Read(idx_t column, Vector &out);
	//! All columns, into the first columns of OUT.
	void Read(DataChunk &out);
	//! Rows of the payload's batch.
	idx_t BatchRows() const {
		return batch ? idx_t(batch->rows) : 0;
	}

private:
	vector<string> names;
	vector<LogicalType> types;
	od_ipc_reader *reader;
	buffer_ptr<VectorBuffer> keep;
	const od_batch *batch = nullptr;
	idx_t offset = 0;
	idx_t count = 0;
	bool checked = false;
};

//! The schema of a description (describe_only): each column's name and its SQL type as text.
vector<pair<string, string>> ReadDescription(od_slice payload);

//! The shallow signature that a NATIVE field of TYPE carries (docs/protocol.md).
string NativeSignature(const LogicalType &type);
//! The Arrow format of a NATIVE field of TYPE; empty if the format lacks the type.
string NativeFormat(const LogicalType &type);
//! Throws an IOException unless SCHEMA is what the protocol says for columns of NAMES and TYPES.
void CheckNativeSchema(const ArrowSchema &schema, const vector<string> &names, const vector<LogicalType> &types);

// ---- scan_verify.cpp: is what a server sent safe to show to DuckDB? Each throws an IOException ----

//! COUNT strings of BYTES by OFFSETS (COUNT + 1): each is valid UTF-8.
void VerifyUtf8(const uint8_t *bytes, const int32_t *offsets, idx_t count);
//! Valid values of TYPE (BIT, BIGNUM, GEOMETRY) have the layout that DuckDB's functions trust.
void VerifyBlobs(const LogicalType &type, const string_t *values, const ValidityMask &validity, idx_t count);
//! Valid values of TYPE (TIME, TIME_NS, TIMETZ) lie within a day, and their offset within DuckDB's bounds.
void VerifyTimes(const LogicalType &type, const uint64_t *values, const ValidityMask &validity, idx_t count);
//! A VARIANT's parts refer to each other within bounds and without cycles.
void VerifyVariant(Vector &variant, idx_t count);

} // namespace openduck
