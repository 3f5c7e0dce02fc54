//===----------------------------------------------------------------------===//
// openduck/pushdown_function.hpp: which of DuckDB's functions mean the same at the server
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/planner/expression/bound_function_expression.hpp"

namespace openduck {
using namespace duckdb; // NOLINT

//! A function of the list.
struct PushableFunction {
	const char *name;
	//! What it may be given, one letter an argument, alternatives with a bar between them (see ArgumentsFit).
	const char *arguments;
	//! It may fail by what is in its arguments.
	bool fallible;
};

//! What EXPR calls, if that is one of DuckDB's own functions, deterministic, the same under all settings, in every time zone and with
//! whatever libraries the server's host has, for the types of its arguments. Else null.
optional_ptr<const PushableFunction> FindPushable(const BoundFunctionExpression &expr);

//! NAME as DuckDB's own function or operator of that name, whatever macros the server has: one may be called "+", and is then what a + b means.
string SystemFunctionSql(const string &name);
//! The same, called with ARGUMENTS.
string SystemCallSql(const string &name, const vector<string> &arguments);

//! Text with the collation that compares bytes.
bool IsPlainText(const LogicalType &type);

//! A cast from SOURCE to TARGET depends on no setting. FALLIBLE: it may fail.
bool IsPushableCast(const LogicalType &source, const LogicalType &target, bool &fallible);

} // namespace openduck
