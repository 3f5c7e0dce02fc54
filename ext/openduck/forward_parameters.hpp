//===----------------------------------------------------------------------===//
// openduck/forward_parameters.hpp: the values of a statement's parameters, as they travel
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/expression/bound_parameter_data.hpp"

extern "C" {
#include "base/buf.h"
}

namespace openduck {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

//! The parameters of a statement by their names ("1", "2", or identifiers).
typedef case_insensitive_map_t<shared_ptr<BoundParameterData>> forward_parameters_t;

//! Finds PARAMETERS, of which the names are known, among those of the statement that BINDER binds: their values, or where
//! DuckDB puts them. Throws a BinderException if it takes none.
void TakeParameters(Binder &binder, forward_parameters_t &parameters);

//! A payload of one row that holds values (see od_remote_query.parameters); nothing if there are none.
class ParameterPayload {
public:
	explicit ParameterPayload(const forward_parameters_t &parameters);
	~ParameterPayload();
	ParameterPayload(const ParameterPayload &) = delete;

	//! Valid as long as this is.
	od_slice Bytes() const;

private:
	od_msg *message = nullptr;
};

} // namespace openduck
