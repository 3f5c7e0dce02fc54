//===----------------------------------------------------------------------===//
// openduck/pushdown.hpp: which parts of a plan the server can do in the client's place
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/optimizer/optimizer_extension.hpp"
#include "duckdb/planner/expression.hpp"
#include "duckdb/planner/operator/logical_aggregate.hpp"
#include "duckdb/planner/operator/logical_get.hpp"
#include "duckdb/planner/table_filter.hpp"

namespace openduck {
using namespace duckdb; // NOLINT

//! VALUE as SQL that gives the same value of the same type at any server, whatever its settings; false if there is none.
bool LiteralToSql(const Value &value, string &sql);
//! TYPE as SQL, for the types of literals and casts; empty if it is not one of them.
string TypeToSql(const LogicalType &type);

//! True if COMPARISON of two values of TYPE means the same at any server.
bool IsComparable(const LogicalType &type, ExpressionType comparison);

//! Writes a column reference; false if the column cannot be named.
typedef std::function<bool(const Expression &ref, string &sql)> column_writer_t;

//! What "/" and "%" of FLOATs and DOUBLEs give here for a divisor of zero (ieee_floating_point_ops).
enum class ZeroDivisor : uint8_t { UNKNOWN, GIVES_INFINITY, GIVES_NULL };
ZeroDivisor CurrentZeroDivisor(ClientContext &context);

//! EXPR as SQL. Only what means the same at the server: no settings but that of ZERO_DIVISOR, no collations, time zones, parameters,
//! nothing volatile and nothing that could fail on one side alone. False if any part of it is something else.
bool ExpressionToSql(const Expression &expr, const column_writer_t &column, string &sql,
                     ZeroDivisor zero_divisor = ZeroDivisor::UNKNOWN);

//! As ExpressionToSql, but also what may fail, as sums and casts that overflow: for what is computed for each row of a scan's
//! result, here or there.
bool ComputationToSql(const Expression &expr, const column_writer_t &column, string &sql, ZeroDivisor zero_divisor);

//! Puts what SOURCES has for the columns of table TABLE in their place. False if EXPRESSIONS name another table.
bool ReplaceColumns(vector<unique_ptr<Expression>> &expressions, idx_t table,
                    const vector<unique_ptr<Expression>> &sources);

enum class FilterSql : uint8_t { WRITTEN, NOT_NEEDED, IMPOSSIBLE };
//! A table filter over the column that is written as COLUMN_SQL. With USE_OPTIONAL filters that DuckDB could do without
//! are written, else they are NOT_NEEDED.
FilterSql TableFilterToSql(const TableFilter &filter, const string &column_sql, const LogicalType &type,
                           bool use_optional, string &sql);

//! The table function's pushdown_complex_filter: moves what the server can do from FILTERS into the bind data.
void PushdownFilters(ClientContext &context, LogicalGet &get, FunctionData *bind_data,
                     vector<unique_ptr<Expression>> &filters);

struct RemoteColumn;
struct RemoteScanSource;

//! A part of a plan: where it hangs, below ROOT, which names its columns.
struct PlanPart {
	Binder &binder;
	unique_ptr<LogicalOperator> &root;
	unique_ptr<LogicalOperator> &place;
};
//! Puts a scan in its place: of the query SQL, one SELECT, at the server of SOURCE, whose COLUMNS are those of the part, and which gives
//! about ROWS rows. Returns what stood there.
unique_ptr<LogicalOperator> ReplaceByScan(PlanPart part, RemoteScanSource source, string sql,
                                          vector<RemoteColumn> columns, idx_t rows);

//! Keeps the bound of a TOP N with those scans of PLAN alone for which it is right and which start when rows have come to it, and has them
//! wait for that: in a UNION ALL what is of this side goes first.
void PlanBounds(ClientContext &context, Binder &binder, LogicalOperator &plan);

//! Whether the server's result is exactly the one that is made here, in whatever order the rows come.
bool IsExactAggregate(const LogicalAggregate &aggregate);

} // namespace openduck
