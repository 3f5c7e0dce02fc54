//===----------------------------------------------------------------------===//
// vgi/bound.hpp: a function of a worker's, bound for one place in a plan
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/schema.hpp"

namespace vgi {

struct BoundFunction {
	explicit BoundFunction(shared_ptr<VgiRemote> remote_p) : remote(std::move(remote_p)) {
	}
	~BoundFunction() {
		od_vgi_bound_free(bound);
	}
	BoundFunction(const BoundFunction &) = delete;

	const ArrowSchema &Schema() const {
		return *od_vgi_bound_schema(bound);
	}

	shared_ptr<VgiRemote> remote;
	od_vgi_bound *bound = nullptr;
};

//! What is to be bound. All is borrowed.
struct FunctionCall {
	FunctionCall(VgiCatalog &catalog, const od_vgi_function &function, const string &schema)
	    : catalog(catalog), function(function), schema(schema) {
	}

	VgiCatalog &catalog;
	const od_vgi_function &function;
	const string &schema;
	//! Columns of one row: positional_N, or the name behind "named_".
	vector<NamedValue> arguments;
	//! Of a function over rows.
	const ArrowSchema *input = nullptr;
	//! Of AT (UNIT => VALUE).
	string at_unit, at_value;
};

//! Binds it, with the settings that it needs, and with the secrets that it asks for as far as the worker may have them.
shared_ptr<BoundFunction> BindAtWorker(ClientContext &context, const FunctionCall &call);

//! The same of an aggregate function, whose worker asks for no secrets beyond those that it declares.
void OpenAggregateAtWorker(ClientContext &context, const FunctionCall &call, od_vgi_aggregate *&out);

} // namespace vgi
