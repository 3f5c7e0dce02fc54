//===----------------------------------------------------------------------===//
// openduck/subplan_unique.cpp: whether rows differ in some of their columns
//===----------------------------------------------------------------------===//
#include "openduck/subplan.hpp"

#include "duckdb/parser/constraints/list.hpp"
#include "duckdb/planner/expression/list.hpp"
#include "openduck/table.hpp"

namespace openduck {

//! Two values of TYPE are equal only if they are the same.
static bool HasOneFormEach(const LogicalType &type) {
	switch (type.id()) {
	case LogicalTypeId::FLOAT:
	case LogicalTypeId::DOUBLE:
	case LogicalTypeId::INTERVAL:
	case LogicalTypeId::TIME_TZ:
		return false;
	default:
		return !TypeToSql(type).empty();
	}
}

static bool HasKey(const OpenDuckTableEntry &table, const case_insensitive_set_t &columns) {
	unordered_set<idx_t> not_null;
	for (auto &constraint : table.GetConstraints()) {
		if (constraint->type == ConstraintType::NOT_NULL) {
			not_null.insert(constraint->Cast<NotNullConstraint>().index.index);
		}
	}
	for (auto &constraint : table.GetConstraints()) {
		if (constraint->type != ConstraintType::UNIQUE) {
			continue;
		}
		auto &unique = constraint->Cast<UniqueConstraint>();
		auto covered = true;
		for (auto &index : unique.GetLogicalIndexes(table.GetColumns())) {
			auto &column = table.GetColumns().GetColumn(index);
			covered &= columns.count(column.Name()) && HasOneFormEach(column.Type()) &&
			           (unique.IsPrimaryKey() || not_null.count(index.index));
		}
		if (covered) {
			return true;
		}
	}
	return false;
}

static bool IsUniqueScan(LogicalGet &get, const column_binding_set_t &keys) {
	if (!IsRemoteScan(get.function) || !get.bind_data) {
		return false;
	}
	auto &bind = get.bind_data->Cast<RemoteScanBindData>();
	if (!bind.source.entry) {
		return false;
	}
	auto &table = bind.source.entry->Cast<OpenDuckTableEntry>();
	auto &ids = get.GetColumnIds();
	case_insensitive_set_t columns;
	for (auto &key : keys) {
		if (key.table_index != get.table_index || key.column_index >= ids.size() ||
		    !ids[key.column_index].HasPrimaryIndex()) {
			continue;
		}
		auto id = ids[key.column_index].GetPrimaryIndex();
		if (id == COLUMN_IDENTIFIER_ROW_ID && !table.IsView()) {
			return true;
		}
		if (!IsVirtualColumn(id)) {
			columns.insert(bind.source.columns[id].name);
		}
	}
	return !table.IsView() && HasKey(table, columns);
}

//! The columns that KEYS of a projection stand for.
static column_binding_set_t Below(const LogicalProjection &projection, const column_binding_set_t &keys) {
	column_binding_set_t result;
	for (auto &key : keys) {
		if (key.table_index == projection.table_index && key.column_index < projection.expressions.size()) {
			auto column = ColumnOf(*projection.expressions[key.column_index]);
			if (column) {
				result.insert(*column);
			}
		}
	}
	return result;
}

optional_ptr<const ColumnBinding> ColumnOf(const Expression &expression) {
	reference<const Expression> inner = expression;
	while (IsCompression(inner, true) || IsCompression(inner, false)) {
		inner = *inner.get().Cast<BoundFunctionExpression>().children[0];
	}
	if (inner.get().GetExpressionClass() != ExpressionClass::BOUND_COLUMN_REF) {
		return nullptr;
	}
	return inner.get().Cast<BoundColumnRefExpression>().binding;
}

//! The columns of the CHILD'th side that JOIN compares for equality.
static column_binding_set_t Compared(const LogicalComparisonJoin &join, idx_t child) {
	column_binding_set_t result;
	for (auto &condition : join.conditions) {
		auto column = ColumnOf(child == 0 ? *condition.left : *condition.right);
		if (column && (condition.comparison == ExpressionType::COMPARE_EQUAL ||
		               condition.comparison == ExpressionType::COMPARE_NOT_DISTINCT_FROM)) {
			result.insert(*column);
		}
	}
	return result;
}

static bool IsUniqueJoin(LogicalComparisonJoin &join, const column_binding_set_t &keys) {
	auto &left = *join.children[0], &right = *join.children[1];
	switch (join.join_type) {
	case JoinType::SEMI:
	case JoinType::ANTI:
	case JoinType::MARK:
	case JoinType::SINGLE:
		return IsUnique(left, keys);
	case JoinType::RIGHT_SEMI:
	case JoinType::RIGHT_ANTI:
		return IsUnique(right, keys);
	case JoinType::INNER:
	case JoinType::LEFT:
		// Each row of the one side is there once for each partner.
		if (IsUnique(left, keys) && (IsUnique(right, keys) || IsUnique(right, Compared(join, 1)))) {
			return true;
		}
		return join.join_type == JoinType::INNER && IsUnique(right, keys) && IsUnique(left, Compared(join, 0));
	default:
		return false;
	}
}

bool IsUnique(LogicalOperator &op, const column_binding_set_t &keys) {
	switch (op.type) {
	case LogicalOperatorType::LOGICAL_GET:
		return IsUniqueScan(op.Cast<LogicalGet>(), keys);
	case LogicalOperatorType::LOGICAL_PROJECTION:
		return IsUnique(*op.children[0], Below(op.Cast<LogicalProjection>(), keys));
	case LogicalOperatorType::LOGICAL_FILTER:
	case LogicalOperatorType::LOGICAL_ORDER_BY:
	case LogicalOperatorType::LOGICAL_TOP_N:
	case LogicalOperatorType::LOGICAL_LIMIT:
	case LogicalOperatorType::LOGICAL_WINDOW:
		return IsUnique(*op.children[0], keys);
	case LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY: {
		auto &aggregate = op.Cast<LogicalAggregate>();
		if (aggregate.grouping_sets.size() > 1) {
			return false;
		}
		for (idx_t i = 0; i < aggregate.groups.size(); i++) {
			if (!keys.count(ColumnBinding(aggregate.group_index, i))) {
				return false;
			}
		}
		return true;
	}
	case LogicalOperatorType::LOGICAL_DELIM_GET:
	case LogicalOperatorType::LOGICAL_DISTINCT: {
		if (op.type == LogicalOperatorType::LOGICAL_DISTINCT &&
		    op.Cast<LogicalDistinct>().distinct_type != DistinctType::DISTINCT) {
			return false;
		}
		for (auto &binding : op.GetColumnBindings()) {
			if (!keys.count(binding)) {
				return false;
			}
		}
		return true;
	}
	case LogicalOperatorType::LOGICAL_COMPARISON_JOIN:
	case LogicalOperatorType::LOGICAL_DELIM_JOIN:
		return IsUniqueJoin(op.Cast<LogicalComparisonJoin>(), keys);
	default:
		return false;
	}
}

} // namespace openduck
