//===----------------------------------------------------------------------===//
// vgi/remote.hpp: one catalog at one worker
//===----------------------------------------------------------------------===//
#pragma once

#include "common/throw.hpp"

extern "C" {
#include "vgi/client.h"
}

namespace vgi {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours
using openduck::ThrowError;
using openduck::ThrowIfFailed;

//! An answer of the worker's, which owns what is in it.
template <class T>
struct Answer {
	Answer() = default;
	Answer(const Answer &) = delete;
	Answer &operator=(const Answer &) = delete;
	~Answer() {
		od_vgi_answer_free(data.answer);
	}
	T *operator->() {
		return &data;
	}
	const T *operator->() const {
		return &data;
	}

	T data = {};
};

inline string Text(od_slice slice) {
	return slice.data ? openduck::ForeignText(reinterpret_cast<const char *>(slice.data), slice.len) : string();
}
//! The text of a NUL-terminated slice; "" if it is absent.
inline const char *CText(od_slice slice) {
	return slice.data ? reinterpret_cast<const char *>(slice.data) : "";
}
vector<string> Texts(const od_vgi_texts &texts);

//! A batch of one row, as values by column.
struct NamedValue {
	string name;
	Value value;
};
//! Of none: no values. VALUES stays as it is.
vector<NamedValue> ReadValues(ClientContext &context, const od_vgi_values &values);

//! The contrary: values as a batch of one row, which a call may move out of.
class SentValues {
public:
	SentValues(ClientContext &context, const vector<NamedValue> &values);
	~SentValues();
	SentValues(const SentValues &) = delete;
	SentValues &operator=(const SentValues &) = delete;

	od_vgi_values *Get() {
		return &data;
	}

private:
	od_vgi_values data = {};
};
//! How DuckDB's values become Arrow's for a worker: without types that only DuckDB knows.
ClientProperties ArrowProperties(ClientContext &context);

//! Thread: any.
class VgiRemote {
public:
	//! Opens the worker at LOCATION; does no I/O. TOKEN goes along with every request over HTTP; empty: none. No answer may take
	//! longer than TIMEOUT_MS; 0: the client's own limits.
	VgiRemote(const string &location, const string &token, int64_t timeout_ms = 0);
	~VgiRemote();
	VgiRemote(const VgiRemote &) = delete;

	od_vgi *Handle() const {
		return vgi;
	}
	//! For a call of CONTEXT's statement, in the worker's TRANSACTION (empty: none). Borrows both.
	od_vgi_context Call(ClientContext &context, const string &transaction) const;
	static od_vgi_interrupt Interrupt(ClientContext &context);
	//! Whether LOCATION is a URL.
	static bool IsUrl(const string &location);
	//! As Call, for what no statement waits for.
	od_vgi_context Quiet(const string &transaction) const;

	//! The worker's name for this attach; set once, before any call but those that attach.
	string attach_bytes;

private:
	od_vgi *vgi = nullptr;
};

} // namespace vgi
