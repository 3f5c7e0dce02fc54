#include "openduck/forward_classify.hpp"

#include "openduck/catalog.hpp"
#include "openduck/scan.hpp"

#include "duckdb/common/types/timestamp.hpp"
#include "duckdb/common/type_visitor.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/database_manager.hpp"
#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/logical_operator_visitor.hpp"
#include "duckdb/planner/operator/logical_expression_get.hpp"
#include "duckdb/planner/operator/logical_get.hpp"
#include "duckdb/planner/operator/logical_merge_into.hpp"

namespace openduck {

//! More constants than this are faster as rows than as text.
static constexpr idx_t MAX_CONSTANTS = 20000;

static bool IsWrite(LogicalOperatorType type) {
	switch (type) {
	case LogicalOperatorType::LOGICAL_INSERT:
	case LogicalOperatorType::LOGICAL_UPDATE:
	case LogicalOperatorType::LOGICAL_DELETE:
	case LogicalOperatorType::LOGICAL_MERGE_INTO:
	case LogicalOperatorType::LOGICAL_CREATE_TABLE:
	case LogicalOperatorType::LOGICAL_CREATE_SCHEMA:
	case LogicalOperatorType::LOGICAL_CREATE_VIEW:
	case LogicalOperatorType::LOGICAL_CREATE_SEQUENCE:
	case LogicalOperatorType::LOGICAL_CREATE_MACRO:
	case LogicalOperatorType::LOGICAL_CREATE_TYPE:
	case LogicalOperatorType::LOGICAL_CREATE_INDEX:
	case LogicalOperatorType::LOGICAL_DROP:
	case LogicalOperatorType::LOGICAL_ALTER:
		return true;
	default:
		return false;
	}
}

optional_ptr<LogicalOperator> WriteOf(LogicalOperator &plan) {
	reference<LogicalOperator> op(plan);
	while (!IsWrite(op.get().type)) {
		switch (op.get().type) {
		case LogicalOperatorType::LOGICAL_EXPLAIN:
		case LogicalOperatorType::LOGICAL_PROJECTION:
		case LogicalOperatorType::LOGICAL_MATERIALIZED_CTE:
			op = *op.get().children.back();
			break;
		default:
			return nullptr;
		}
	}
	return op.get();
}

static bool ChangesRemote(ClientContext &context, const StatementProperties &properties) {
	auto &manager = DatabaseManager::Get(context);
	for (auto &modified : properties.modified_databases) {
		auto database = manager.GetDatabase(context, modified.first);
		if (database && !database->IsSystem() && !database->IsTemporary() &&
		    OpenDuckCatalog::Is(database->GetCatalog())) {
			return true;
		}
	}
	return false;
}

static bool IsZoned(const LogicalType &type) {
	return TypeVisitor::Contains(type, LogicalTypeId::TIMESTAMP_TZ) ||
	       TypeVisitor::Contains(type, LogicalTypeId::TIME_TZ);
}

//! A literal that says its offset is the same moment everywhere.
static bool HasOffset(const Expression &expr) {
	if (expr.GetExpressionClass() != ExpressionClass::BOUND_CONSTANT ||
	    expr.return_type.id() != LogicalTypeId::VARCHAR) {
		return false;
	}
	auto &value = expr.Cast<BoundConstantExpression>().value;
	if (value.IsNull()) {
		return false;
	}
	auto &text = StringValue::Get(value);
	timestamp_t moment;
	string_t zone;
	bool has_offset = false;
	return Timestamp::TryConvertTimestampTZ(text.c_str(), text.size(), moment, true, has_offset, zone) ==
	           TimestampCastResult::SUCCESS &&
	       has_offset;
}

//! True if EXPR computes by the session's time zone or calendar.
static bool NeedsZone(const Expression &expr) {
	bool result = false;
	switch (expr.GetExpressionClass()) {
	case ExpressionClass::BOUND_CAST: {
		auto &cast = expr.Cast<BoundCastExpression>();
		result = IsZoned(cast.return_type) != IsZoned(cast.child->return_type) &&
		         cast.child->return_type.id() != LogicalTypeId::SQLNULL &&
		         !(cast.return_type.id() == LogicalTypeId::TIMESTAMP_TZ && HasOffset(*cast.child));
		break;
	}
	case ExpressionClass::BOUND_FUNCTION: {
		auto &function = expr.Cast<BoundFunctionExpression>();
		for (auto &child : function.children) {
			result |= IsZoned(child->return_type);
		}
		break;
	}
	default:
		break;
	}
	ExpressionIterator::EnumerateChildren(expr, [&](const Expression &child) { result |= NeedsZone(child); });
	return result;
}

class PlanCheck {
public:
	bool Fits(LogicalOperator &op) {
		if (op.type == LogicalOperatorType::LOGICAL_GET && !IsForeign(op.Cast<LogicalGet>())) {
			return false;
		}
		if (op.type == LogicalOperatorType::LOGICAL_CHUNK_GET) {
			return false;
		}
		if (op.type == LogicalOperatorType::LOGICAL_EXPRESSION_GET) {
			for (auto &row : op.Cast<LogicalExpressionGet>().expressions) {
				constants += row.size();
			}
		}
		bool fits = constants <= MAX_CONSTANTS;
		LogicalOperatorVisitor::EnumerateExpressions(
		    op, [&](unique_ptr<Expression> *expr) { fits = fits && !NeedsZone(**expr); });
		for (auto &child : op.children) {
			fits = fits && Fits(*child);
		}
		return fits;
	}

private:
	//! A table of a server, or rows that are made of nothing.
	static bool IsForeign(const LogicalGet &get) {
		static const case_insensitive_set_t PURE = {"range",     "generate_series", "unnest",    "repeat",
		                                            "json_each", "json_tree",       "repeat_row"};
		return IsRemoteScan(get.function) || PURE.find(get.function.name) != PURE.end();
	}

	idx_t constants = 0;
};

//! Settings that change what a query means; the server runs it with DuckDB's own.
static bool HasUsualSettings(ClientContext &context) {
	static const vector<pair<string, string>> USUAL = {{"default_order", "ASCENDING"},
	                                                   {"default_null_order", "NULLS_LAST"},
	                                                   {"default_collation", ""},
	                                                   {"integer_division", "false"},
	                                                   {"ieee_floating_point_ops", "true"},
	                                                   {"old_implicit_casting", "false"},
	                                                   {"order_by_non_integer_literal", "false"},
	                                                   {"scalar_subquery_error_on_multiple_rows", "true"}};
	for (auto &setting : USUAL) {
		Value value;
		if (context.TryGetCurrentSetting(setting.first, value) &&
		    !StringUtil::CIEquals(value.ToString(), setting.second)) {
			return false;
		}
	}
	return true;
}

static bool HoldsRows(LogicalOperatorType type) {
	return type == LogicalOperatorType::LOGICAL_INSERT || type == LogicalOperatorType::LOGICAL_UPDATE ||
	       type == LogicalOperatorType::LOGICAL_DELETE || type == LogicalOperatorType::LOGICAL_MERGE_INTO ||
	       type == LogicalOperatorType::LOGICAL_CREATE_TABLE;
}

static bool AnyNeedsZone(LogicalOperator &op) {
	bool result = false;
	LogicalOperatorVisitor::EnumerateExpressions(op,
	                                             [&](unique_ptr<Expression> *expr) { result |= NeedsZone(**expr); });
	if (op.type == LogicalOperatorType::LOGICAL_MERGE_INTO) {
		for (auto &entry : op.Cast<LogicalMergeInto>().actions) {
			for (auto &action : entry.second) {
				result |= action->condition && NeedsZone(*action->condition);
				for (auto &expr : action->expressions) {
					result |= NeedsZone(*expr);
				}
			}
		}
	}
	for (auto &child : op.children) {
		result = result || AnyNeedsZone(*child);
	}
	return result;
}

bool MeansTheSame(ClientContext &context, LogicalOperator &plan) {
	return HasUsualSettings(context) && !AnyNeedsZone(plan);
}

bool MayForward(ClientContext &context, const StatementProperties &properties, LogicalOperator &write) {
	if (!ChangesRemote(context, properties)) {
		return false;
	}
	return !HoldsRows(write.type) || (HasUsualSettings(context) && PlanCheck().Fits(write));
}

} // namespace openduck
