#include "vgi/pushdown.hpp"

#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/expression_iterator.hpp"

namespace vgi {

static bool IsText(const char *format) {
	return strcmp(format, "u") == 0 || strcmp(format, "U") == 0 || strcmp(format, "vu") == 0;
}

//! Whether values of both formats compare at a worker as they do here.
static bool SameType(const char *column, const char *literal) {
	if (strncmp(column, "tsu:", 4) == 0 && strncmp(literal, "tsu:", 4) == 0) {
		return true; // points in time, whatever the zone
	}
	return IsText(column) ? IsText(literal) : strcmp(column, literal) == 0;
}

static bool IsPlain(const LogicalType &type) {
	switch (type.id()) {
	case LogicalTypeId::BOOLEAN:
	case LogicalTypeId::TINYINT:
	case LogicalTypeId::SMALLINT:
	case LogicalTypeId::INTEGER:
	case LogicalTypeId::BIGINT:
	case LogicalTypeId::UTINYINT:
	case LogicalTypeId::USMALLINT:
	case LogicalTypeId::UINTEGER:
	case LogicalTypeId::UBIGINT:
	case LogicalTypeId::FLOAT:
	case LogicalTypeId::DOUBLE:
	case LogicalTypeId::DECIMAL:
	case LogicalTypeId::VARCHAR:
	case LogicalTypeId::DATE:
	case LogicalTypeId::TIMESTAMP:
	case LogicalTypeId::TIMESTAMP_SEC:
	case LogicalTypeId::TIMESTAMP_MS:
	case LogicalTypeId::TIMESTAMP_NS:
	case LogicalTypeId::TIMESTAMP_TZ:
		return true;
	default:
		return false;
	}
}

od_vgi_expr *ToldFilters::Node(od_vgi_expr_kind kind, vector<const od_vgi_expr *> operands) {
	lists.push_back(std::move(operands));
	od_vgi_expr node = {};
	node.kind = kind;
	node.child_count = lists.back().size();
	node.children = lists.back().data();
	nodes.push_back(node);
	return &nodes.back();
}

const ArrowSchema *ToldFilters::Column(const Expression &expression) const {
	if (expression.GetExpressionClass() != ExpressionClass::BOUND_REF) {
		return nullptr;
	}
	auto index = expression.Cast<BoundReferenceExpression>().index;
	return IsPlain(expression.return_type) && !columns.children[index]->dictionary ? columns.children[index] : nullptr;
}

//! A node of KIND with VALUE; null if COLUMN's type is another one.
od_vgi_expr *ToldFilters::Literal(od_vgi_expr_kind kind, const Value &value, const ArrowSchema &column,
                                  vector<const od_vgi_expr *> operands) {
	auto sent = make_uniq<SentValues>(context, vector<NamedValue> {{"value", value}});
	auto literal = sent->Get()->schema.children[0];
	if (kind == OD_VGI_IN) {
		literal = literal->children[0];
	}
	if (!SameType(column.format, literal->format)) {
		return nullptr;
	}
	values.push_back(std::move(sent));
	auto node = Node(kind, std::move(operands));
	node->value = values.back()->Get();
	return node;
}

od_vgi_expr *ToldFilters::Compare(ExpressionType type, const Expression &left, const Expression &right) {
	if (!Column(left)) {
		return Column(right) ? Compare(FlipComparisonExpression(type), right, left) : nullptr;
	}
	static const unordered_map<uint8_t, od_vgi_compare> OPERATORS = {
	    {uint8_t(ExpressionType::COMPARE_EQUAL), OD_VGI_EQ},
	    {uint8_t(ExpressionType::COMPARE_NOTEQUAL), OD_VGI_NE},
	    {uint8_t(ExpressionType::COMPARE_LESSTHAN), OD_VGI_LT},
	    {uint8_t(ExpressionType::COMPARE_LESSTHANOREQUALTO), OD_VGI_LE},
	    {uint8_t(ExpressionType::COMPARE_GREATERTHAN), OD_VGI_GT},
	    {uint8_t(ExpressionType::COMPARE_GREATERTHANOREQUALTO), OD_VGI_GE}};
	auto op = OPERATORS.find(uint8_t(type));
	if (op == OPERATORS.end() || right.GetExpressionClass() != ExpressionClass::BOUND_CONSTANT) {
		return nullptr;
	}
	auto &value = right.Cast<BoundConstantExpression>().value;
	auto literal = value.IsNull() ? nullptr : Literal(OD_VGI_LITERAL, value, *Column(left), {});
	if (!literal) {
		return nullptr;
	}
	auto node = Node(OD_VGI_COMPARE, {Tell(left), literal});
	node->op = op->second;
	return node;
}

od_vgi_expr *ToldFilters::In(const Expression &expression) {
	auto &operands = expression.Cast<BoundOperatorExpression>().children;
	auto column = Column(*operands[0]);
	vector<Value> members;
	for (idx_t i = 1; i < operands.size(); i++) {
		if (operands[i]->GetExpressionClass() != ExpressionClass::BOUND_CONSTANT) {
			return nullptr;
		}
		members.push_back(operands[i]->Cast<BoundConstantExpression>().value);
		if (members.back().IsNull()) {
			return nullptr; // then it is never false
		}
	}
	if (!column) {
		return nullptr;
	}
	auto list = Value::LIST(operands[0]->return_type, std::move(members));
	auto node = Literal(OD_VGI_IN, list, *column, {Tell(*operands[0])});
	if (node) {
		node->negated = expression.GetExpressionType() == ExpressionType::COMPARE_NOT_IN;
	}
	return node;
}

od_vgi_expr *ToldFilters::Children(od_vgi_expr_kind kind, const vector<unique_ptr<Expression>> &children) {
	vector<const od_vgi_expr *> told;
	for (auto &child : children) {
		// A column alone is a condition, too, but no comparison.
		bool is_column = child->GetExpressionClass() == ExpressionClass::BOUND_REF;
		told.push_back(is_column ? nullptr : Tell(*child));
		if (!told.back()) {
			return nullptr;
		}
	}
	return Node(kind, std::move(told));
}

od_vgi_expr *ToldFilters::Tell(const Expression &expression) {
	auto type = expression.GetExpressionType();
	switch (expression.GetExpressionClass()) {
	case ExpressionClass::BOUND_REF: {
		auto node = Node(OD_VGI_COLUMN, {});
		node->column = int64_t(expression.Cast<BoundReferenceExpression>().index);
		return node;
	}
	case ExpressionClass::BOUND_COMPARISON: {
		auto &comparison = expression.Cast<BoundComparisonExpression>();
		return Compare(type, *comparison.left, *comparison.right);
	}
	case ExpressionClass::BOUND_BETWEEN: {
		auto &between = expression.Cast<BoundBetweenExpression>();
		auto lower = Compare(between.LowerComparisonType(), *between.input, *between.lower);
		auto upper = Compare(between.UpperComparisonType(), *between.input, *between.upper);
		return lower && upper ? Node(OD_VGI_AND, {lower, upper}) : nullptr;
	}
	case ExpressionClass::BOUND_CONJUNCTION:
		return Children(type == ExpressionType::CONJUNCTION_AND ? OD_VGI_AND : OD_VGI_OR,
		                expression.Cast<BoundConjunctionExpression>().children);
	case ExpressionClass::BOUND_OPERATOR: {
		auto &operands = expression.Cast<BoundOperatorExpression>().children;
		if (type == ExpressionType::COMPARE_IN || type == ExpressionType::COMPARE_NOT_IN) {
			return In(expression);
		}
		if (type == ExpressionType::OPERATOR_NOT) {
			return Children(OD_VGI_NOT, operands);
		}
		bool negated = type == ExpressionType::OPERATOR_IS_NOT_NULL;
		if ((type != ExpressionType::OPERATOR_IS_NULL && !negated) || !Column(*operands[0])) {
			return nullptr;
		}
		auto node = Node(OD_VGI_IS_NULL, {Tell(*operands[0])});
		node->negated = negated;
		return node;
	}
	default:
		return nullptr;
	}
}

bool ToldFilters::Add(const Expression &expression) {
	auto told = expression.GetExpressionClass() == ExpressionClass::BOUND_REF ? nullptr : Tell(expression);
	if (told) {
		filters.push_back(told);
	}
	return told != nullptr;
}

static void Rebase(unique_ptr<Expression> &expression, const LogicalGet &get, bool &fits) {
	if (expression->GetExpressionClass() != ExpressionClass::BOUND_COLUMN_REF) {
		fits =
		    fits && !expression->IsVolatile() && expression->GetExpressionClass() != ExpressionClass::BOUND_PARAMETER;
		ExpressionIterator::EnumerateChildren(*expression,
		                                      [&](unique_ptr<Expression> &child) { Rebase(child, get, fits); });
		return;
	}
	auto &binding = expression->Cast<BoundColumnRefExpression>().binding;
	auto &ids = get.GetColumnIds();
	if (binding.table_index != get.table_index || binding.column_index >= ids.size() ||
	    ids[binding.column_index].IsVirtualColumn() || ids[binding.column_index].HasChildren()) {
		fits = false;
		return;
	}
	expression =
	    make_uniq<BoundReferenceExpression>(expression->return_type, ids[binding.column_index].GetPrimaryIndex());
}

unique_ptr<Expression> OverFunctionColumns(const Expression &expression, const LogicalGet &get) {
	auto result = expression.Copy();
	bool fits = true;
	Rebase(result, get, fits);
	return fits ? std::move(result) : nullptr;
}

} // namespace vgi
