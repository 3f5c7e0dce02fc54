//===----------------------------------------------------------------------===//
// vgi/pushdown.hpp: conditions that a worker is told
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/remote.hpp"

#include "duckdb/common/deque.hpp"
#include "duckdb/planner/expression.hpp"
#include "duckdb/planner/operator/logical_get.hpp"

namespace vgi {

//! Conditions as the client takes them: columns, constants, comparisons, IN, IS NULL, AND, OR and NOT, of types that mean the same
//! there as here.
class ToldFilters {
public:
	//! COLUMNS: what the worker's function gives; both outlive this.
	ToldFilters(ClientContext &context, const ArrowSchema &columns) : context(context), columns(columns) {
	}
	//! Adds EXPRESSION over references to columns; false, and adds nothing, if it cannot be told.
	bool Add(const Expression &expression);
	const vector<const od_vgi_expr *> &Get() const {
		return filters;
	}

private:
	od_vgi_expr *Tell(const Expression &expression);
	od_vgi_expr *Node(od_vgi_expr_kind kind, vector<const od_vgi_expr *> operands);
	od_vgi_expr *Compare(ExpressionType type, const Expression &left, const Expression &right);
	od_vgi_expr *In(const Expression &expression);
	od_vgi_expr *Children(od_vgi_expr_kind kind, const vector<unique_ptr<Expression>> &children);
	od_vgi_expr *Literal(od_vgi_expr_kind kind, const Value &value, const ArrowSchema &column,
	                     vector<const od_vgi_expr *> operands);
	//! The column that EXPRESSION is; null if it is none.
	const ArrowSchema *Column(const Expression &expression) const;

	ClientContext &context;
	const ArrowSchema &columns;
	vector<const od_vgi_expr *> filters;
	deque<od_vgi_expr> nodes;
	deque<vector<const od_vgi_expr *>> lists;
	vector<unique_ptr<SentValues>> values;
};

//! EXPRESSION over GET's columns as one over references to the function's columns; null if it is about anything else.
unique_ptr<Expression> OverFunctionColumns(const Expression &expression, const LogicalGet &get);

} // namespace vgi
