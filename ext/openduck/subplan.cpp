//===----------------------------------------------------------------------===//
// openduck/subplan.cpp: operators of an optimized plan as SQL
//===----------------------------------------------------------------------===//
#include "openduck/subplan.hpp"

#include "openduck/pushdown_function.hpp"

#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/expression_iterator.hpp"

namespace openduck {

//! No expression is longer than this before what it computes from is made an item of its own.
static constexpr idx_t MAX_INLINED = 4096;

//===--------------------------------------------------------------------===//
// Operators
//===--------------------------------------------------------------------===//
//! How often EXPRESSIONS name columns of BLOCK that are computed: at most once each, or more.
static bool ComputesTwice(const vector<unique_ptr<Expression>> &expressions, const SubplanBlock &block) {
	unordered_map<string, idx_t> named;
	bool twice = false;
	for (auto &expression : expressions) {
		ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
		    *expression, [&](const BoundColumnRefExpression &ref) {
			    auto column = block.Find(ref.binding);
			    twice |= column && !column->plain && (++named[column->sql] > 1 || column->sql.size() > MAX_INLINED);
		    });
	}
	return twice;
}

bool SubplanWriter::WriteScan(LogicalGet &get, SubplanBlock &block) {
	if (!IsRemoteScan(get.function) || !get.bind_data || get.extra_info.sample_options || !get.children.empty()) {
		return false;
	}
	auto &bind = get.bind_data->Cast<RemoteScanBindData>();
	if (!bind.Wrappable() || bind.limit.IsValid() || !bind.key_filters.empty() || !bind.sent.empty() ||
	    !Accept(bind.source)) {
		return false;
	}
	block.from = ScanFromSql(bind, get.table_filters, block.where);
	if (block.from.empty()) {
		return false;
	}
	get.ResolveOperatorTypes();
	auto bindings = get.GetColumnBindings();
	auto &ids = get.GetColumnIds();
	for (idx_t i = 0; i < bindings.size(); i++) {
		auto &index = ids[bindings[i].column_index];
		if (index.IsPushdownExtract() || !index.HasPrimaryIndex()) {
			return false;
		}
		auto id = index.GetPrimaryIndex();
		SubplanColumn column {bindings[i], get.types[i], string(), true};
		if (id == COLUMN_IDENTIFIER_EMPTY) {
			column.sql = "CAST(NULL AS BOOLEAN)";
			column.plain = false;
		} else if ((IsVirtualColumn(id) && id != COLUMN_IDENTIFIER_ROW_ID) ||
		           ScanColumnType(bind, id) != get.types[i]) {
			return false;
		} else {
			column.sql = ScanColumnSql(bind, id);
		}
		block.columns.push_back(std::move(column));
	}
	return true;
}

bool IsOfThisSide(const LogicalOperator &op) {
	switch (op.type) {
	case LogicalOperatorType::LOGICAL_GET:
		if (IsRemoteScan(op.Cast<LogicalGet>().function)) {
			return false;
		}
		break;
	case LogicalOperatorType::LOGICAL_DELIM_GET:
	case LogicalOperatorType::LOGICAL_CTE_REF:
	case LogicalOperatorType::LOGICAL_EXTENSION_OPERATOR:
		return false;
	default:
		break;
	}
	for (auto &child : op.children) {
		if (!IsOfThisSide(*child)) {
			return false;
		}
	}
	return true;
}

bool SubplanWriter::WriteSent(LogicalOperator &op, SubplanBlock &block) {
	op.ResolveOperatorTypes();
	auto bindings = op.GetColumnBindings();
	if (bindings.empty() || bindings.size() != op.types.size()) {
		return false;
	}
	auto alias = "t" + to_string(++aliases);
	for (idx_t i = 0; i < bindings.size(); i++) {
		if (op.types[i].id() == LogicalTypeId::ENUM || TypeToSql(op.types[i]).empty()) {
			return false;
		}
		block.columns.push_back({bindings[i], op.types[i], alias + ".c" + to_string(i), true});
	}
	sent.push_back({op, make_shared_ptr<SentRows>(op.types)});
	block.from = RowParameters::FromItem(sent.size()) + " AS " + alias;
	block.qualified = true;
	block.single = true;
	return true;
}

bool SubplanWriter::WriteProjection(LogicalProjection &projection, SubplanBlock &block) {
	if (!WriteInput(*projection.children[0], block)) {
		return false;
	}
	if (ComputesTwice(projection.expressions, block)) {
		Wrap(block);
	}
	auto scalar = ScalarSubqueryKind(*projection.children[0]);
	auto checked = false;
	vector<SubplanColumn> columns;
	for (idx_t i = 0; i < projection.expressions.size(); i++) {
		auto check = scalar == ScalarSubquery::NONE ? nullptr : AsRowCheck(*projection.expressions[i]);
		// What has one row need not be looked at for more.
		auto &expression = check && scalar == ScalarSubquery::ONE_ROW ? *check->else_expr : *projection.expressions[i];
		SubplanColumn column {ColumnBinding(projection.table_index, i), expression.return_type, string(), false};
		if (expression.GetExpressionClass() == ExpressionClass::BOUND_COLUMN_REF) {
			auto child = block.Find(expression.Cast<BoundColumnRefExpression>().binding);
			column.plain = child && child->plain;
		}
		if (check && scalar == ScalarSubquery::COUNTED ? !WriteRowCheck(*check, block, column.sql)
		                                               : !WriteProjected(expression, block, column)) {
			return false;
		}
		checked |= check && scalar == ScalarSubquery::COUNTED;
		columns.push_back(std::move(column));
	}
	block.columns = std::move(columns);
	if (checked) {
		// Here the rows are counted whether or not anything needs the value. A server would not, of a subquery beside no rows.
		block = Named(Name(Select(block), CTEMaterialize::CTE_MATERIALIZE_ALWAYS), block);
	}
	return true;
}

bool SubplanWriter::WriteFilter(LogicalFilter &filter, SubplanBlock &block) {
	if (!WriteInput(*filter.children[0], block)) {
		return false;
	}
	for (auto &expression : filter.expressions) {
		string sql;
		if (!WriteExpression(*expression, block, sql)) {
			return false;
		}
		block.where.push_back(std::move(sql));
	}
	return true;
}

//! "sum(DISTINCT x) FILTER (WHERE y)".
static string AggregateSql(const BoundAggregateExpression &bound, const string &argument, const string &filter) {
	auto name = bound.children.empty() ? "count" : bound.function.name;
	return SystemFunctionSql(name) + "(" + (bound.IsDistinct() ? "DISTINCT " : "") + argument + ")" +
	       (filter.empty() ? "" : " FILTER (WHERE " + filter + ")");
}

static string GroupBySql(const LogicalAggregate &aggregate, const vector<string> &groups) {
	if (aggregate.grouping_sets.size() <= 1) {
		return groups.empty() ? "" : " GROUP BY " + StringUtil::Join(groups, ", ");
	}
	vector<string> sets;
	for (auto &set : aggregate.grouping_sets) {
		vector<string> members;
		for (auto index : set) {
			members.push_back(groups[index]);
		}
		sets.push_back("(" + StringUtil::Join(members, ", ") + ")");
	}
	return " GROUP BY GROUPING SETS (" + StringUtil::Join(sets, ", ") + ")";
}

bool SubplanWriter::WriteAggregate(LogicalAggregate &aggregate, SubplanBlock &block) {
	switch (ScalarSubqueryKind(aggregate)) {
	case ScalarSubquery::ONE_ROW:
		return WriteScalar(aggregate, block);
	case ScalarSubquery::COUNTED:
		return WriteCounted(aggregate, block);
	default:
		break;
	}
	if (!IsExactAggregate(aggregate) || !WriteInput(*aggregate.children[0], block)) {
		return false;
	}
	if (aggregate.grouping_sets.size() > 1) {
		// Groups that are columns: what is left out of a set is NULL, wherever else it is named.
		for (auto &group : aggregate.groups) {
			if (group->GetExpressionClass() != ExpressionClass::BOUND_COLUMN_REF) {
				return false;
			}
		}
		Wrap(block);
	}
	vector<SubplanColumn> columns;
	vector<string> groups;
	for (idx_t i = 0; i < aggregate.groups.size(); i++) {
		auto &group = *aggregate.groups[i];
		SubplanColumn column {ColumnBinding(aggregate.group_index, i), group.return_type, string(), false};
		if (TypeToSql(group.return_type).empty() || !WriteExpression(group, block, column.sql, &column.compressed)) {
			return false;
		}
		groups.push_back(column.sql);
		columns.push_back(std::move(column));
	}
	for (idx_t i = 0; i < aggregate.grouping_functions.size(); i++) {
		vector<string> members;
		for (auto index : aggregate.grouping_functions[i]) {
			members.push_back(groups[index]);
		}
		columns.push_back({ColumnBinding(aggregate.groupings_index, i), LogicalType::BIGINT,
		                   "grouping(" + StringUtil::Join(members, ", ") + ")", false});
	}
	for (idx_t i = 0; i < aggregate.expressions.size(); i++) {
		auto &bound = aggregate.expressions[i]->Cast<BoundAggregateExpression>();
		string argument = "*", filter;
		if ((!bound.children.empty() && !WriteExpression(*bound.children[0], block, argument)) ||
		    (bound.filter && !WriteExpression(*bound.filter, block, filter))) {
			return false;
		}
		columns.push_back({ColumnBinding(aggregate.aggregate_index, i), bound.return_type,
		                   AggregateSql(bound, argument, filter), false});
	}
	block.columns = std::move(columns);
	if (block.columns.empty()) {
		return false;
	}
	block.tail = GroupBySql(aggregate, groups);
	block.closed = true;
	block.qualified = false;
	block.single = false;
	return true;
}

bool SubplanWriter::WriteDistinct(LogicalDistinct &distinct, SubplanBlock &block) {
	if (!WriteInput(*distinct.children[0], block)) {
		return false;
	}
	if (distinct.distinct_type == DistinctType::DISTINCT_ON) {
		return WriteDistinctOn(distinct, block);
	}
	if (distinct.order_by || !Restrict(distinct, block) || block.columns.empty()) {
		return false;
	}
	for (auto &column : block.columns) {
		if (column.numbering || TypeToSql(column.type).empty()) {
			return false;
		}
	}
	Become(block, Select(block, true));
	return true;
}

bool SubplanWriter::WriteDistinctOn(LogicalDistinct &distinct, SubplanBlock &block) {
	column_binding_set_t keys;
	vector<string> targets;
	string orders;
	if (!distinct.order_by || !Restrict(distinct, block) || block.columns.empty()) {
		return false;
	}
	Qualify(block);
	for (auto &target : distinct.distinct_targets) {
		auto column = ColumnOf(*target);
		targets.emplace_back();
		if (!column || TypeToSql(target->return_type).empty() || !WriteExpression(*target, block, targets.back())) {
			return false;
		}
		keys.insert(*column);
	}
	for (auto &order : distinct.order_by->orders) {
		auto column = ColumnOf(*order.expression);
		if (column) {
			keys.insert(*column);
		}
	}
	// Else any of the rows that are equal in the order may be the first.
	if (!IsUnique(*distinct.children[0], keys) || !WriteOrders(distinct.order_by->orders, block, orders)) {
		return false;
	}
	auto list = Select(block).substr(sizeof("SELECT ") - 1);
	Become(block, "SELECT DISTINCT ON (" + StringUtil::Join(targets, ", ") + ") " + list + orders);
	return true;
}

bool SubplanWriter::WriteSetOperation(LogicalSetOperation &operation, SubplanBlock &block) {
	auto word = operation.type == LogicalOperatorType::LOGICAL_UNION    ? " UNION"
	            : operation.type == LogicalOperatorType::LOGICAL_EXCEPT ? " EXCEPT"
	                                                                    : " INTERSECT";
	operation.ResolveOperatorTypes();
	vector<string> sides;
	for (auto &child : operation.children) {
		SubplanBlock side;
		if (!WriteOperator(*child, side) || !Restrict(*child, side) || side.columns.size() != operation.column_count ||
		    side.columns.empty()) {
			return false;
		}
		for (idx_t i = 0; i < side.columns.size(); i++) {
			if (side.columns[i].type != operation.types[i] || side.columns[i].compressed || side.columns[i].numbering ||
			    TypeToSql(operation.types[i]).empty()) {
				return false;
			}
		}
		sides.push_back(Select(side));
	}
	for (idx_t i = 0; i < operation.column_count; i++) {
		block.columns.push_back({ColumnBinding(operation.table_index, i), operation.types[i], string(), false});
	}
	Become(block, "(" + StringUtil::Join(sides, string(")") + word + (operation.setop_all ? " ALL (" : " (")) + ")");
	return true;
}

bool SubplanWriter::WriteInput(LogicalOperator &op, SubplanBlock &block) {
	if (!WriteOperator(op, block)) {
		return false;
	}
	if (block.closed) {
		Wrap(block);
	}
	return true;
}

bool SubplanWriter::WriteOperator(LogicalOperator &op, SubplanBlock &block) {
	if (sends && IsOfThisSide(op)) {
		return WriteSent(op, block);
	}
	switch (op.type) {
	case LogicalOperatorType::LOGICAL_GET:
		if (IsUnnest(op.Cast<LogicalGet>())) {
			return WriteUnnest(op.Cast<LogicalGet>(), block) && Restrict(op, block);
		}
		return WriteScan(op.Cast<LogicalGet>(), block);
	case LogicalOperatorType::LOGICAL_PROJECTION:
		return WriteProjection(op.Cast<LogicalProjection>(), block);
	case LogicalOperatorType::LOGICAL_FILTER:
		return WriteFilter(op.Cast<LogicalFilter>(), block) && Restrict(op, block);
	case LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY:
		return WriteAggregate(op.Cast<LogicalAggregate>(), block);
	case LogicalOperatorType::LOGICAL_DISTINCT:
		return WriteDistinct(op.Cast<LogicalDistinct>(), block);
	case LogicalOperatorType::LOGICAL_ORDER_BY:
		// Without a limit above, nobody sees it within a part of a plan.
		return WriteOperator(*op.children[0], block) && Restrict(op, block);
	case LogicalOperatorType::LOGICAL_WINDOW:
		return WriteWindow(op.Cast<LogicalWindow>(), block) && Restrict(op, block);
	case LogicalOperatorType::LOGICAL_TOP_N:
		return WriteTopN(op.Cast<LogicalTopN>(), block);
	case LogicalOperatorType::LOGICAL_LIMIT:
		return WriteLimit(op.Cast<LogicalLimit>(), block);
	case LogicalOperatorType::LOGICAL_UNION:
	case LogicalOperatorType::LOGICAL_EXCEPT:
	case LogicalOperatorType::LOGICAL_INTERSECT:
		return WriteSetOperation(op.Cast<LogicalSetOperation>(), block);
	case LogicalOperatorType::LOGICAL_MATERIALIZED_CTE:
		return WriteMaterialized(op.Cast<LogicalMaterializedCTE>(), block);
	case LogicalOperatorType::LOGICAL_RECURSIVE_CTE:
		return WriteRecursive(op.Cast<LogicalRecursiveCTE>(), block);
	case LogicalOperatorType::LOGICAL_UNNEST:
		return WriteUnnest(op.Cast<LogicalUnnest>(), block) && Restrict(op, block);
	case LogicalOperatorType::LOGICAL_DUMMY_SCAN:
		block.columns.push_back({op.GetColumnBindings()[0], LogicalType::INTEGER, "CAST(NULL AS INTEGER)", false});
		return true;
	case LogicalOperatorType::LOGICAL_EMPTY_RESULT:
		return WriteEmpty(op.Cast<LogicalEmptyResult>(), block);
	case LogicalOperatorType::LOGICAL_ASOF_JOIN:
		return WriteAsOfJoin(op.Cast<LogicalComparisonJoin>(), block) && Restrict(op, block);
	case LogicalOperatorType::LOGICAL_CTE_REF:
		return WriteReference(op.Cast<LogicalCTERef>(), block);
	case LogicalOperatorType::LOGICAL_DELIM_GET:
		return WriteDelimGet(op.Cast<LogicalDelimGet>(), block);
	case LogicalOperatorType::LOGICAL_CROSS_PRODUCT:
		return WriteCrossProduct(op, block) && Restrict(op, block);
	case LogicalOperatorType::LOGICAL_ANY_JOIN:
		return WriteAnyJoin(op.Cast<LogicalAnyJoin>(), block) && Restrict(op, block);
	case LogicalOperatorType::LOGICAL_COMPARISON_JOIN:
		return WriteJoin(op.Cast<LogicalComparisonJoin>(), block) && Restrict(op, block);
	case LogicalOperatorType::LOGICAL_DELIM_JOIN:
		return WriteDelimJoin(op.Cast<LogicalComparisonJoin>(), block) && Restrict(op, block);
	default:
		return false;
	}
}

} // namespace openduck
