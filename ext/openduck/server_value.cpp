#include "openduck/server_value.hpp"

#include "duckdb/execution/operator/projection/physical_projection.hpp"
#include "duckdb/execution/operator/scan/physical_expression_scan.hpp"
#include "duckdb/function/scalar_function.hpp"
#include "duckdb/main/extension/extension_loader.hpp"
#include "duckdb/parser/expression/cast_expression.hpp"
#include "duckdb/parser/expression/function_expression.hpp"
#include "duckdb/planner/expression/bound_cast_expression.hpp"
#include "duckdb/planner/expression/bound_constant_expression.hpp"
#include "duckdb/planner/expression/bound_function_expression.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"

namespace openduck {

static constexpr const char *FUNCTION_NAME = "__openduck_server_value";

namespace {

class ServerValueExpression : public FunctionExpression {
public:
	explicit ServerValueExpression(string text_p)
	    : FunctionExpression(SYSTEM_CATALOG, DEFAULT_SCHEMA, FUNCTION_NAME, vector<unique_ptr<ParsedExpression>>()),
	      text(std::move(text_p)) {
	}
	string ToString() const override {
		return text;
	}
	unique_ptr<ParsedExpression> Copy() const override {
		auto copy = make_uniq<ServerValueExpression>(text);
		copy->CopyProperties(*this);
		return std::move(copy);
	}

private:
	string text;
};

void Execute(DataChunk &, ExpressionState &, Vector &) {
	throw NotImplementedException("a DEFAULT that the server has to evaluate is not supported in this place");
}

} // namespace

unique_ptr<ParsedExpression> ServerValue(const ParsedExpression &expression) {
	return make_uniq<ServerValueExpression>(expression.ToString());
}

bool IsSameEverywhere(const ParsedExpression &expression) {
	return expression.GetExpressionClass() == ExpressionClass::CONSTANT;
}

static bool IsServerValue(const Expression &expression) {
	switch (expression.GetExpressionClass()) {
	case ExpressionClass::BOUND_CAST:
		return IsServerValue(*expression.Cast<BoundCastExpression>().child);
	case ExpressionClass::BOUND_FUNCTION:
		return expression.Cast<BoundFunctionExpression>().function.name == FUNCTION_NAME;
	default:
		return false;
	}
}

static void MakeNull(unique_ptr<Expression> &expression) {
	expression = make_uniq<BoundConstantExpression>(Value(expression->return_type));
}

static bool TakeFromRows(PhysicalExpressionScan &scan, idx_t column) {
	idx_t found = 0;
	for (auto &row : scan.expressions) {
		found += IsServerValue(*row[column]);
	}
	if (found == 0) {
		return false;
	}
	if (found < scan.expressions.size()) {
		throw NotImplementedException(
		    "DEFAULT in some rows only, beside values that are computed here, is not supported");
	}
	for (auto &row : scan.expressions) {
		MakeNull(row[column]);
	}
	return true;
}

bool TakeServerValue(PhysicalOperator &plan, idx_t column) {
	if (plan.type == PhysicalOperatorType::EXPRESSION_SCAN) {
		return TakeFromRows(plan.Cast<PhysicalExpressionScan>(), column);
	}
	if (plan.type != PhysicalOperatorType::PROJECTION) {
		return false;
	}
	auto &expression = plan.Cast<PhysicalProjection>().select_list[column];
	if (IsServerValue(*expression)) {
		MakeNull(expression);
		return true;
	}
	reference<Expression> inner(*expression);
	while (inner.get().GetExpressionClass() == ExpressionClass::BOUND_CAST) {
		inner = *inner.get().Cast<BoundCastExpression>().child;
	}
	if (inner.get().GetExpressionClass() != ExpressionClass::BOUND_REF) {
		return false;
	}
	return TakeServerValue(plan.children[0].get(), inner.get().Cast<BoundReferenceExpression>().index);
}

void RegisterServerValue(ExtensionLoader &loader) {
	ScalarFunction function(FUNCTION_NAME, {}, LogicalType::SQLNULL, Execute);
	function.SetVolatile();
	loader.RegisterFunction(function);
}

} // namespace openduck
