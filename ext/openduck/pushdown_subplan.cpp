//===----------------------------------------------------------------------===//
// openduck/pushdown_subplan.cpp: which parts of a plan the server runs
//===----------------------------------------------------------------------===//
#include "openduck/subplan.hpp"

#include "duckdb/optimizer/optimizer.hpp"
#include "duckdb/planner/expression/list.hpp"

namespace openduck {

//===--------------------------------------------------------------------===//
// Aggregates
//===--------------------------------------------------------------------===//
bool IsExactAggregate(const AggregateFunction &function, const vector<unique_ptr<Expression>> &arguments) {
	auto &name = function.name;
	if (name == "count_star" || arguments.empty()) {
		return arguments.empty() && (name == "count_star" || name == "count");
	}
	if (arguments.size() != 1) {
		return false;
	}
	auto &type = arguments[0]->return_type;
	if (name == "sum" || name == "avg") {
		return type.IsIntegral() || type.id() == LogicalTypeId::DECIMAL;
	}
	return name == "count" || ((name == "min" || name == "max") && !TypeToSql(type).empty());
}

bool IsExactAggregate(const LogicalAggregate &aggregate) {
	auto &sets = aggregate.grouping_sets;
	if (sets.size() == 1 && sets[0].size() != aggregate.groups.size()) {
		return false;
	}
	for (auto &expression : aggregate.expressions) {
		auto &bound = expression->Cast<BoundAggregateExpression>();
		auto &catalog = bound.function.catalog_name;
		if (!IsExactAggregate(bound.function, bound.children) || bound.order_bys ||
		    (!catalog.empty() && catalog != SYSTEM_CATALOG) || TypeToSql(bound.return_type).empty()) {
			return false;
		}
	}
	return true;
}

namespace {

bool IsRemoteLeaf(const LogicalOperator &op) {
	switch (op.type) {
	case LogicalOperatorType::LOGICAL_GET:
		return IsRemoteScan(op.Cast<LogicalGet>().function);
	case LogicalOperatorType::LOGICAL_DELIM_GET:
	case LogicalOperatorType::LOGICAL_CTE_REF:
	case LogicalOperatorType::LOGICAL_DUMMY_SCAN:
	case LogicalOperatorType::LOGICAL_EMPTY_RESULT:
		return true;
	default:
		return false;
	}
}

bool IsRemoteTree(const LogicalOperator &op) {
	if (op.children.empty()) {
		return IsRemoteLeaf(op);
	}
	for (auto &child : op.children) {
		if (!IsRemoteTree(*child)) {
			return false;
		}
	}
	return op.type != LogicalOperatorType::LOGICAL_EXTENSION_OPERATOR;
}

//! As IsRemoteTree, but of parts of this side too. SCANS: the tables of a server that were met.
bool IsMixedTree(const LogicalOperator &op, idx_t &scans) {
	if (IsOfThisSide(op)) {
		return true;
	}
	if (op.children.empty()) {
		scans += op.type == LogicalOperatorType::LOGICAL_GET;
		return IsRemoteLeaf(op);
	}
	if (op.type == LogicalOperatorType::LOGICAL_EXTENSION_OPERATOR) {
		return false;
	}
	for (auto &child : op.children) {
		if (!IsMixedTree(*child, scans)) {
			return false;
		}
	}
	return true;
}

//! Whether OP is a LIMIT of no rows, of which DuckDB makes nothing: its TOP N reads the first of none.
bool GivesNoRows(const LogicalOperator &op) {
	if (op.type != LogicalOperatorType::LOGICAL_LIMIT) {
		return false;
	}
	auto &limit = op.Cast<LogicalLimit>().limit_val;
	return limit.Type() == LimitNodeType::CONSTANT_VALUE && limit.GetConstantValue() == 0;
}

//! Whether no aggregate of OP has to be made here, and DuckDB's optimizers need not be first.
bool MayBeWritten(const LogicalOperator &op) {
	if (GivesNoRows(op)) {
		return false;
	}
	if (op.type == LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY &&
	    ScalarSubqueryKind(op) == ScalarSubquery::NONE && !IsExactAggregate(op.Cast<LogicalAggregate>())) {
		return false;
	}
	for (auto &child : op.children) {
		if (!MayBeWritten(*child)) {
			return false;
		}
	}
	return true;
}

//! The place of OP below PLACE.
unique_ptr<LogicalOperator> &PlaceOf(const LogicalOperator &op, unique_ptr<LogicalOperator> &place) {
	for (auto &child : place->children) {
		if (child.get() == &op) {
			return child;
		}
		if (child) {
			auto &found = PlaceOf(op, child);
			if (&found != &child) {
				return found;
			}
		}
	}
	return place;
}

//! A scan, perhaps below projections.
bool IsScan(const LogicalOperator &op) {
	reference<const LogicalOperator> child = op;
	while (child.get().type == LogicalOperatorType::LOGICAL_PROJECTION) {
		child = *child.get().children[0];
	}
	return child.get().type == LogicalOperatorType::LOGICAL_GET;
}

//! Whether OP's rows come in an order that was asked for.
bool GivesOrder(const LogicalOperator &op) {
	switch (op.type) {
	case LogicalOperatorType::LOGICAL_ORDER_BY:
	case LogicalOperatorType::LOGICAL_TOP_N:
		return true;
	case LogicalOperatorType::LOGICAL_PROJECTION:
	case LogicalOperatorType::LOGICAL_FILTER:
		return GivesOrder(*op.children[0]);
	case LogicalOperatorType::LOGICAL_MATERIALIZED_CTE:
		return GivesOrder(*op.children[1]);
	default:
		return false;
	}
}

//! If PLACE is a CTE, what its query ends with, down to the order or a limit, goes above it: the rest may be the server's.
void LiftOrder(unique_ptr<LogicalOperator> &place) {
	if (place->type != LogicalOperatorType::LOGICAL_MATERIALIZED_CTE || !IsRemoteTree(*place->children[0])) {
		return;
	}
	LiftOrder(place->children[1]);
	auto type = place->children[1]->type;
	if ((!GivesOrder(*place->children[1]) && type != LogicalOperatorType::LOGICAL_LIMIT) ||
	    type == LogicalOperatorType::LOGICAL_FILTER || type == LogicalOperatorType::LOGICAL_MATERIALIZED_CTE) {
		return;
	}
	auto top = std::move(place->children[1]);
	place->children[1] = std::move(top->children[0]);
	top->children[0] = std::move(place);
	place = std::move(top);
	LiftOrder(place->children[0]);
}

//! count(*) alone, which a scan does by itself.
bool CountsOnly(const LogicalAggregate &aggregate) {
	if (!aggregate.groups.empty() || !IsScan(*aggregate.children[0])) {
		return false;
	}
	for (auto &expression : aggregate.expressions) {
		auto &bound = expression->Cast<BoundAggregateExpression>();
		if (!bound.children.empty() || bound.filter) {
			return false;
		}
	}
	return true;
}

//! Gives rows of one side, and no more than it has.
bool IsSemiOrAnti(JoinType type) {
	switch (type) {
	case JoinType::SEMI:
	case JoinType::ANTI:
	case JoinType::RIGHT_SEMI:
	case JoinType::RIGHT_ANTI:
	case JoinType::MARK:
		return true;
	default:
		return false;
	}
}

//! What a plan is known of when parts of it are looked for.
enum class PlanStage : uint8_t { BOUND, OPTIMIZED, KEYS_PLANNED };

class SubplanPusher {
public:
	SubplanPusher(Binder &binder, ClientContext &context, unique_ptr<LogicalOperator> &root, PlanStage stage)
	    : binder(binder), context(context), root(root), bound(stage == PlanStage::BOUND),
	      keys_planned(stage == PlanStage::KEYS_PLANNED) {
	}

	//! Whether what comes of OP, whose tables are all of a server, is worth being made there whatever its size.
	bool IsWorthWhole(LogicalOperator &op) {
		switch (op.type) {
		case LogicalOperatorType::LOGICAL_LIMIT:
			return op.children[0]->type == LogicalOperatorType::LOGICAL_ORDER_BY || IsWorthWhole(*op.children[0]);
		case LogicalOperatorType::LOGICAL_MATERIALIZED_CTE:
			return IsWorthWhole(*op.children[1]);
		default:
			return IsAbove(op) ? IsWorthWhole(*op.children[0]) : IsWorth(op, false, false);
		}
	}

	//! As Visit, of a plan that is worth it as a whole.
	bool PushWhole(unique_ptr<LogicalOperator> &place) {
		LiftOrder(place);
		if (place->type == LogicalOperatorType::LOGICAL_TOP_N) {
			return PushFirst(place->Cast<LogicalTopN>());
		}
		if (IsAbove(*place) || place->type == LogicalOperatorType::LOGICAL_LIMIT) {
			return PushWhole(place->children[0]);
		}
		return IsWorth(*place, false, false) && Push(place);
	}

	//! The largest parts at and below PLACE. REDUCIBLE: a join above may need fewer of its rows. SUMMED: what comes of PLACE ends in
	//! groups that the server can make.
	void Visit(unique_ptr<LogicalOperator> &place, bool reducible, bool summed) {
		LiftOrder(place);
		if (place->type == LogicalOperatorType::LOGICAL_TOP_N && PushFirst(place->Cast<LogicalTopN>())) {
			return;
		}
		if (IsRoot(*place) && IsRemoteTree(*place) && IsWorth(*place, reducible, summed) && Push(place)) {
			return;
		}
		if (!keys_planned && !repeated && (IsRoot(*place) || Decompresses(*place)) && PushMixed(place)) {
			return;
		}
		if (place->type == LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY) {
			summed = IsExactAggregate(place->Cast<LogicalAggregate>()) && IsRemoteTree(*place->children[0]);
		}
		auto before = repeated;
		repeated |= place->type == LogicalOperatorType::LOGICAL_RECURSIVE_CTE;
		for (idx_t i = 0; i < place->children.size(); i++) {
			Visit(place->children[i], IsReducible(*place, i, reducible), summed);
		}
		repeated = before;
	}

private:
	//! Whether OP is what stays here of a plan that is the server's.
	static bool IsAbove(const LogicalOperator &op) {
		switch (op.type) {
		case LogicalOperatorType::LOGICAL_PROJECTION:
		case LogicalOperatorType::LOGICAL_ORDER_BY:
		case LogicalOperatorType::LOGICAL_EXPLAIN:
		case LogicalOperatorType::LOGICAL_INSERT:
		case LogicalOperatorType::LOGICAL_CREATE_TABLE:
		case LogicalOperatorType::LOGICAL_COPY_TO_FILE:
			return true;
		default:
			return false;
		}
	}

	//! What computes a few columns is as good here, and no order is kept on the way.
	static bool IsRoot(const LogicalOperator &op) {
		return op.type != LogicalOperatorType::LOGICAL_PROJECTION && !GivesOrder(op);
	}

	//! Columns of this side are grouped in a short form, which ends here.
	static bool Decompresses(const LogicalOperator &op) {
		bool found = false;
		for (auto &expression : op.expressions) {
			found |= IsCompression(*expression, false);
		}
		return found && op.type == LogicalOperatorType::LOGICAL_PROJECTION && !GivesOrder(op);
	}

	//! Whether the keys of a join may leave out rows of the CHILD'th side of OP.
	static bool IsReducible(const LogicalOperator &op, idx_t child, bool reducible) {
		switch (op.type) {
		case LogicalOperatorType::LOGICAL_COMPARISON_JOIN: {
			auto &join = op.Cast<LogicalComparisonJoin>();
			idx_t ranges = 0;
			auto drops = join.join_type == JoinType::INNER || join.join_type == JoinType::SEMI ||
			             join.join_type == JoinType::RIGHT || join.join_type == JoinType::RIGHT_SEMI ||
			             join.join_type == JoinType::RIGHT_ANTI;
			return child == 0 && (reducible || (drops && join.HasEquality(ranges)));
		}
		case LogicalOperatorType::LOGICAL_CROSS_PRODUCT:
			return child == 0 && reducible;
		case LogicalOperatorType::LOGICAL_FILTER:
		case LogicalOperatorType::LOGICAL_PROJECTION:
		case LogicalOperatorType::LOGICAL_ORDER_BY:
		case LogicalOperatorType::LOGICAL_DISTINCT:
		case LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY:
		case LogicalOperatorType::LOGICAL_UNION:
		case LogicalOperatorType::LOGICAL_EXTENSION_OPERATOR:
			return reducible;
		default:
			return false;
		}
	}

	bool IsWorth(LogicalOperator &op, bool reducible, bool summed) {
		switch (op.type) {
		case LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY:
			return (keys_planned || !reducible) && !CountsOnly(op.Cast<LogicalAggregate>());
		case LogicalOperatorType::LOGICAL_DISTINCT:
			return keys_planned || !reducible;
		case LogicalOperatorType::LOGICAL_FILTER:
			// What the scan did not take over, since it may fail: it goes if all of it does.
			return (keys_planned && SelectsFromScan(op)) || (IsOverWindow(op) && GivesLess(op)) ||
			       IsWorth(*op.children[0], reducible, summed);
		case LogicalOperatorType::LOGICAL_PROJECTION:
		case LogicalOperatorType::LOGICAL_ORDER_BY:
			return IsWorth(*op.children[0], reducible, summed);
		case LogicalOperatorType::LOGICAL_MATERIALIZED_CTE:
			return IsWorth(*op.children[1], reducible, summed);
		case LogicalOperatorType::LOGICAL_EXCEPT:
		case LogicalOperatorType::LOGICAL_INTERSECT:
			return true;
		case LogicalOperatorType::LOGICAL_UNION:
			return !op.Cast<LogicalSetOperation>().setop_all && (keys_planned || !reducible);
		case LogicalOperatorType::LOGICAL_COMPARISON_JOIN:
		case LogicalOperatorType::LOGICAL_DELIM_JOIN:
		case LogicalOperatorType::LOGICAL_ANY_JOIN:
			return summed || IsSemiOrAnti(op.Cast<LogicalJoin>().join_type) || GivesLess(op);
		case LogicalOperatorType::LOGICAL_CROSS_PRODUCT:
		case LogicalOperatorType::LOGICAL_ASOF_JOIN:
		case LogicalOperatorType::LOGICAL_RECURSIVE_CTE:
		case LogicalOperatorType::LOGICAL_UNNEST:
			return summed || GivesLess(op);
		case LogicalOperatorType::LOGICAL_WINDOW:
			// Its rows are those below, and more columns.
			return IsWorth(*op.children[0], reducible, summed);
		default:
			return false;
		}
	}

	//! A filter over a scan that no join's filters reach at run time.
	static bool SelectsFromScan(const LogicalOperator &op) {
		auto &child = *op.children[0];
		return child.type == LogicalOperatorType::LOGICAL_GET && !child.Cast<LogicalGet>().dynamic_filters;
	}

	//! QUALIFY.
	static bool IsOverWindow(const LogicalOperator &filter) {
		reference<const LogicalOperator> child = *filter.children[0];
		while (child.get().type == LogicalOperatorType::LOGICAL_PROJECTION) {
			child = *child.get().children[0];
		}
		return child.get().type == LogicalOperatorType::LOGICAL_WINDOW;
	}

	//! Whether less is estimated to come of OP than its scans give. Of what is only bound, that is not known.
	bool GivesLess(LogicalOperator &op) {
		if (bound) {
			return false;
		}
		op.ResolveOperatorTypes();
		idx_t width = 1;
		for (auto &type : op.types) {
			width += ValueBytes(type);
		}
		return double(op.EstimateCardinality(context)) * double(width) <= double(ScannedBytes(op));
	}

	idx_t ScannedBytes(LogicalOperator &op) {
		idx_t result = op.type == LogicalOperatorType::LOGICAL_GET ? ScanBytes(context, op.Cast<LogicalGet>()) : 0;
		for (auto &child : op.children) {
			result += ScannedBytes(*child);
		}
		return result;
	}

	bool Push(unique_ptr<LogicalOperator> &place) {
		SubplanWriter writer(context);
		vector<RemoteColumn> columns;
		auto sql = writer.Write(*place, columns);
		if (sql.empty() || !writer.HasSource()) {
			return false;
		}
		auto single = place->type == LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY &&
		              place->Cast<LogicalAggregate>().groups.empty();
		ReplaceByScan({binder, root, place}, writer.Source(), std::move(sql), std::move(columns),
		              single ? 1 : place->EstimateCardinality(context));
		return true;
	}

	//! The server runs it with rows of this side.
	bool PushMixed(unique_ptr<LogicalOperator> &place) {
		idx_t scans = 0;
		if (place->children.empty() || !IsMixedTree(*place, scans) || scans == 0 || !IsWorthSending(context, *place)) {
			return false;
		}
		SubplanWriter writer(context, true);
		vector<RemoteColumn> columns;
		auto sql = writer.Write(*place, columns);
		if (sql.empty() || !writer.HasSource() || writer.sent.empty() || !writer.Source().remote->TakesRows() ||
		    StringUtil::Split(sql, "openduck_rows(").size() != writer.sent.size() + 1) {
			// The last: a text of the user's looks like a name that may be replaced (RowTransport).
			return false;
		}
		auto rows = place->EstimateCardinality(context);
		auto part = ReplaceByScan({binder, root, place}, writer.Source(), std::move(sql), std::move(columns), rows);
		auto &bind = place->Cast<LogicalGet>().bind_data->Cast<RemoteScanBindData>();
		for (auto &sent : writer.sent) {
			bind.sent.push_back(sent.rows);
		}
		for (auto &sent : writer.sent) {
			place = PlanSentRows(sent.rows, std::move(place), std::move(PlaceOf(sent.op, part)));
		}
		return true;
	}

	//! The server gives the first rows only; they are put in order here.
	bool PushFirst(LogicalTopN &top) {
		if (!IsRemoteTree(*top.children[0]) || top.limit > NumericLimits<int32_t>::Maximum() ||
		    top.offset > NumericLimits<int32_t>::Maximum()) {
			return false;
		}
		auto rows = top.limit + top.offset;
		auto estimated = top.children[0]->EstimateCardinality(context);
		if (top.children[0]->type == LogicalOperatorType::LOGICAL_GET && estimated <= rows) {
			return false;
		}
		SubplanWriter writer(context);
		vector<RemoteColumn> columns;
		auto sql = writer.WriteFirst(*top.children[0], top.orders, rows, columns);
		if (sql.empty() || !writer.HasSource()) {
			return false;
		}
		estimated = MinValue(rows, estimated);
		ReplaceByScan({binder, root, top.children[0]}, writer.Source(), std::move(sql), std::move(columns), estimated);
		return true;
	}

	Binder &binder;
	ClientContext &context;
	unique_ptr<LogicalOperator> &root;
	const bool bound;
	const bool keys_planned;
	//! Below a recursive CTE: what is here is run more than once.
	bool repeated = false;
};

} // namespace

void PushSubplans(OptimizerExtensionInput &input, unique_ptr<LogicalOperator> &plan, bool keys_planned) {
	auto stage = keys_planned ? PlanStage::KEYS_PLANNED : PlanStage::OPTIMIZED;
	SubplanPusher(input.optimizer.binder, input.context, plan, stage).Visit(plan, false, false);
}

bool PushWholePlan(OptimizerExtensionInput &input, unique_ptr<LogicalOperator> &plan) {
	SubplanPusher pusher(input.optimizer.binder, input.context, plan, PlanStage::BOUND);
	if (!IsRemoteTree(*plan) || !MayBeWritten(*plan) || !pusher.IsWorthWhole(*plan)) {
		return false;
	}
	PrepareWholePlan(input.optimizer, plan);
	return pusher.PushWhole(plan);
}

} // namespace openduck
