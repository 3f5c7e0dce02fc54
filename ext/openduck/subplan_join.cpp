//===----------------------------------------------------------------------===//
// openduck/subplan_join.cpp: joins of an optimized plan as SQL
//===----------------------------------------------------------------------===//
#include "openduck/subplan.hpp"

#include "duckdb/planner/expression/list.hpp"

namespace openduck {

//! A join of TYPE with exchanged sides is one of another type.
static JoinType Exchange(JoinType type, SubplanBlock &left, SubplanBlock &right) {
	switch (type) {
	case JoinType::RIGHT:
		std::swap(left, right);
		return JoinType::LEFT;
	case JoinType::RIGHT_SEMI:
		std::swap(left, right);
		return JoinType::SEMI;
	case JoinType::RIGHT_ANTI:
		std::swap(left, right);
		return JoinType::ANTI;
	default:
		return type;
	}
}

static string JoinWord(JoinType type) {
	switch (type) {
	case JoinType::LEFT:
		return " LEFT JOIN ";
	case JoinType::OUTER:
		return " FULL JOIN ";
	case JoinType::SEMI:
		return " SEMI JOIN ";
	case JoinType::ANTI:
		return " ANTI JOIN ";
	default:
		return string();
	}
}

bool SubplanWriter::Join(JoinType type, SubplanBlock left, SubplanBlock right, const on_t &write, SubplanBlock &block) {
	auto exchanged = type == JoinType::RIGHT || type == JoinType::RIGHT_SEMI || type == JoinType::RIGHT_ANTI;
	type = Exchange(type, left, right);
	auto word = JoinWord(type);
	if (type == JoinType::INNER) {
		Qualify(left);
		Qualify(right);
		if (!right.appendable) {
			Wrap(right);
		}
	} else if (!word.empty()) {
		if (type == JoinType::OUTER) {
			MakeItem(left);
		} else if (!left.qualified || !left.IsPlain()) {
			Wrap(left);
		}
		MakeItem(right);
	} else {
		return false;
	}
	vector<string> conditions;
	if (!(exchanged ? write(right, left, conditions) : write(left, right, conditions))) {
		return false;
	}
	block.qualified = true;
	block.where = left.where;
	block.columns = left.columns;
	block.appendable = left.appendable && type != JoinType::OUTER;
	if (type == JoinType::INNER) {
		block.from = left.from + " CROSS JOIN " + right.from;
		block.where.insert(block.where.end(), right.where.begin(), right.where.end());
		block.where.insert(block.where.end(), conditions.begin(), conditions.end());
	} else {
		block.from = left.from + word + right.from + " ON " + StringUtil::Join(conditions, " AND ");
	}
	if (type != JoinType::SEMI && type != JoinType::ANTI) {
		block.columns.insert(block.columns.end(), right.columns.begin(), right.columns.end());
	}
	return true;
}

bool SubplanWriter::WriteCrossProduct(LogicalOperator &op, SubplanBlock &block) {
	SubplanBlock left, right;
	return WriteOperator(*op.children[0], left) && WriteOperator(*op.children[1], right) &&
	       Join(
	           JoinType::INNER, std::move(left), std::move(right),
	           [](const SubplanBlock &, const SubplanBlock &, vector<string> &) { return true; }, block);
}

bool SubplanWriter::WriteAnyJoin(LogicalAnyJoin &join, SubplanBlock &block) {
	SubplanBlock left, right;
	auto on = [&](const SubplanBlock &one, const SubplanBlock &other, vector<string> &conditions) {
		auto both = one;
		both.columns.insert(both.columns.end(), other.columns.begin(), other.columns.end());
		conditions.emplace_back();
		return WriteExpression(*join.condition, both, conditions.back());
	};
	return WriteOperator(*join.children[0], left) && WriteOperator(*join.children[1], right) &&
	       Join(join.join_type, std::move(left), std::move(right), on, block);
}

bool SubplanWriter::WriteConditions(const LogicalComparisonJoin &join, const SubplanBlock &left,
                                    const SubplanBlock &right, vector<string> &conditions) {
	for (auto &condition : join.conditions) {
		SubplanColumn one, other;
		if (!IsComparable(condition.left->return_type, condition.comparison) ||
		    condition.left->return_type != condition.right->return_type ||
		    !WriteProjected(*condition.left, left, one) || !WriteProjected(*condition.right, right, other) ||
		    one.compressed || other.compressed || one.numbering != other.numbering) {
			return false;
		}
		conditions.push_back("(" + one.sql + " " + ExpressionTypeToOperator(condition.comparison) + " " + other.sql +
		                     ")");
	}
	return !conditions.empty();
}

static bool IsExists(const LogicalComparisonJoin &join) {
	for (auto &condition : join.conditions) {
		if (condition.comparison != ExpressionType::COMPARE_NOT_DISTINCT_FROM) {
			return false;
		}
	}
	return !join.duplicate_eliminated_columns.empty();
}

bool SubplanWriter::WriteExists(LogicalComparisonJoin &join, SubplanBlock left, SubplanBlock right,
                                SubplanBlock &block) {
	if (!left.qualified || !left.IsPlain()) {
		Wrap(left);
	}
	Qualify(right);
	vector<SubplanColumn> keys;
	vector<string> sides;
	for (auto &condition : join.conditions) {
		string one, other;
		if (!IsComparable(condition.left->return_type, condition.comparison) ||
		    condition.left->return_type != condition.right->return_type ||
		    !WriteExpression(*condition.left, left, one) || !WriteExpression(*condition.right, right, other)) {
			return false;
		}
		sides.push_back(one);
		keys.push_back({ColumnBinding(), condition.right->return_type, other, false});
	}
	keys.push_back({ColumnBinding(), LogicalType::BOOLEAN, "true", false});
	right.columns = std::move(keys);
	Become(right, Select(right, true));
	for (idx_t i = 0; i < sides.size(); i++) {
		sides[i] = "(" + sides[i] + " IS NOT DISTINCT FROM " + right.columns[i].sql + ")";
	}
	block = std::move(left);
	block.from += " LEFT JOIN " + right.from + " ON " + StringUtil::Join(sides, " AND ");
	block.columns.push_back({ColumnBinding(join.mark_index, 0), LogicalType::BOOLEAN,
	                         "(" + right.columns.back().sql + " IS NOT NULL)", false});
	Wrap(block);
	return true;
}

bool SubplanWriter::WriteMark(LogicalComparisonJoin &join, SubplanBlock left, SubplanBlock right, SubplanBlock &block) {
	if (IsExists(join)) {
		return WriteExists(join, std::move(left), std::move(right), block);
	}
	string needle, list;
	Qualify(left);
	Qualify(right);
	for (auto &condition : join.conditions) {
		string one, other;
		if (!IsComparable(condition.left->return_type, condition.comparison) ||
		    condition.left->return_type != condition.right->return_type ||
		    !WriteExpression(*condition.left, left, one) || !WriteExpression(*condition.right, right, other)) {
			return false;
		}
		if (condition.comparison == ExpressionType::COMPARE_EQUAL && needle.empty()) {
			// Only this has the NULLs of IN.
			needle = one;
			list = other;
		} else if (condition.comparison == ExpressionType::COMPARE_NOT_DISTINCT_FROM &&
		           !join.duplicate_eliminated_columns.empty()) {
			// The rows of one outer row.
			right.where.push_back("(" + one + " IS NOT DISTINCT FROM " + other + ")");
		} else {
			return false;
		}
	}
	if (needle.empty()) {
		return false;
	}
	block = std::move(left);
	block.columns.push_back({ColumnBinding(join.mark_index, 0), LogicalType::BOOLEAN,
	                         "(" + needle + " IN (" + Select(right, list) + "))", false});
	Wrap(block);
	return true;
}

//! A row has at most one partner, so that JOIN, which fails if there are more, is an outer one.
static bool HasOnePartner(LogicalComparisonJoin &join) {
	column_binding_set_t keys;
	for (auto &condition : join.conditions) {
		auto column = ColumnOf(*condition.right);
		if (column && (condition.comparison == ExpressionType::COMPARE_EQUAL ||
		               condition.comparison == ExpressionType::COMPARE_NOT_DISTINCT_FROM)) {
			keys.insert(*column);
		}
	}
	return !join.delim_flipped && IsUnique(*join.children[1], keys);
}

static JoinType WrittenType(LogicalComparisonJoin &join) {
	return join.join_type == JoinType::SINGLE && HasOnePartner(join) ? JoinType::LEFT : join.join_type;
}

bool SubplanWriter::WriteJoin(LogicalComparisonJoin &join, SubplanBlock &block) {
	SubplanBlock left, right;
	if (join.predicate || !join.duplicate_eliminated_columns.empty() || !WriteOperator(*join.children[0], left) ||
	    !WriteInput(*join.children[1], right)) {
		return false;
	}
	if (join.join_type == JoinType::MARK) {
		return WriteMark(join, std::move(left), std::move(right), block);
	}
	auto on = [&](const SubplanBlock &one, const SubplanBlock &other, vector<string> &conditions) {
		return WriteConditions(join, one, other, conditions);
	};
	return Join(WrittenType(join), std::move(left), std::move(right), on, block);
}

//! The nearest of several rows that are equal would be anyone's.
bool SubplanWriter::WriteAsOfJoin(LogicalComparisonJoin &join, SubplanBlock &block) {
	SubplanBlock left, right;
	vector<string> conditions;
	column_binding_set_t keys;
	for (auto &condition : join.conditions) {
		auto column = ColumnOf(*condition.right);
		if (column) {
			keys.insert(*column);
		}
	}
	auto outer = join.join_type == JoinType::LEFT;
	if (join.predicate || (!outer && join.join_type != JoinType::INNER) || !IsUnique(*join.children[1], keys) ||
	    !WriteInput(*join.children[0], left) || !WriteInput(*join.children[1], right)) {
		return false;
	}
	MakeItem(left);
	MakeItem(right);
	if (!WriteConditions(join, left, right, conditions)) {
		return false;
	}
	block = std::move(left);
	block.from += string(outer ? " ASOF LEFT JOIN " : " ASOF JOIN ") + right.from + " ON " +
	              StringUtil::Join(conditions, " AND ");
	block.columns.insert(block.columns.end(), right.columns.begin(), right.columns.end());
	Wrap(block);
	return true;
}

//===--------------------------------------------------------------------===//
// Correlated subqueries
//===--------------------------------------------------------------------===//
//! Equal values of TYPE are equal at any server.
static bool IsGrouped(const LogicalType &type) {
	return !TypeToSql(type.id() == LogicalTypeId::LIST ? ListType::GetChildType(type) : type).empty();
}

bool SubplanWriter::WriteDelimJoin(LogicalComparisonJoin &join, SubplanBlock &block) {
	auto outer_side = join.delim_flipped ? 1 : 0;
	SubplanBlock outer;
	if (join.predicate || (join.join_type == JoinType::MARK && join.delim_flipped) ||
	    !WriteOperator(*join.children[outer_side], outer) || !Restrict(*join.children[outer_side], outer) ||
	    outer.columns.empty()) {
		return false;
	}
	auto name = Name(Select(outer));
	DelimSource delim {name, {}};
	for (idx_t i = 0; i < outer.columns.size(); i++) {
		outer.columns[i].sql = "c" + to_string(i);
	}
	for (auto &expression : join.duplicate_eliminated_columns) {
		SubplanColumn column {ColumnBinding(), expression->return_type, string(), false};
		if (!IsGrouped(expression->return_type) || !WriteProjected(*expression, outer, column) || column.compressed) {
			return false;
		}
		delim.columns.push_back(std::move(column));
	}
	delims.push_back(std::move(delim));
	SubplanBlock inner;
	auto written = WriteOperator(*join.children[1 - outer_side], inner);
	delims.pop_back();
	if (!written) {
		return false;
	}
	auto on = [&](const SubplanBlock &one, const SubplanBlock &other, vector<string> &conditions) {
		return WriteConditions(join, one, other, conditions);
	};
	auto named_outer = Named(name, outer);
	if (join.join_type == JoinType::MARK) {
		if (inner.closed) {
			Wrap(inner);
		}
		return WriteMark(join, std::move(named_outer), std::move(inner), block);
	}
	return outer_side == 0 ? Join(WrittenType(join), std::move(named_outer), std::move(inner), on, block)
	                       : Join(join.join_type, std::move(inner), std::move(named_outer), on, block);
}

bool SubplanWriter::WriteDelimGet(LogicalDelimGet &get, SubplanBlock &block) {
	if (delims.empty() || delims.back().columns.size() != get.chunk_types.size()) {
		return false;
	}
	string list;
	for (idx_t i = 0; i < get.chunk_types.size(); i++) {
		list += (i ? ", " : "") + delims.back().columns[i].sql + " AS c" + to_string(i);
		block.columns.push_back({ColumnBinding(get.table_index, i), get.chunk_types[i], string(), true});
		block.columns.back().numbering = delims.back().columns[i].numbering;
	}
	Become(block, "SELECT DISTINCT " + list + " FROM " + delims.back().name);
	return true;
}

} // namespace openduck
