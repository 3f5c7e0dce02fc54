//===----------------------------------------------------------------------===//
// openduck/macro_text.hpp: the definition of a macro, from what the server tells of it
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/parser/parsed_data/create_macro_info.hpp"

namespace openduck {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

//! A server lists the names and types of a macro's parameters, but not their defaults: only the error for wrong arguments
//! does, in lines like "add(a, b INTEGER := 5)".
struct MacroText {
	struct Overload {
		vector<string> parameters;
		vector<string> types; // as many; empty: of any type
		string definition;
	};

	string name;
	bool table = false;
	CreateMacroInfo common {CatalogType::MACRO_ENTRY}; // comment and tags
	vector<Overload> overloads;
	//! The error, for numbers of arguments that some overload may have, but not all.
	vector<string> candidates;

	//! Throws a NotImplementedException if it cannot be understood here.
	unique_ptr<CreateMacroInfo> Parse(ClientContext &context) const;
	//! The CREATE MACRO statement.
	string ToSql() const;
};

} // namespace openduck
