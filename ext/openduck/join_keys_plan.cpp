//===----------------------------------------------------------------------===//
// openduck/join_keys_plan.cpp: which keys are worth sending, and where to
//===----------------------------------------------------------------------===//
#include "openduck/join_keys.hpp"
#include "openduck/scan.hpp"
#include "openduck/selectivity.hpp"

#include "duckdb/main/settings.hpp"
#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/operator/list.hpp"

namespace openduck {

namespace {

//! Never more than this.
constexpr idx_t MAX_KEY_BYTES = idx_t(16) << 20;
//! A scan of less is not worth a thought.
constexpr idx_t MIN_SCAN_BYTES = idx_t(16) << 10;
//! Keys may be this part of what the scan would give without them. Those of a side from which nothing was left out are
//! perhaps all that the other side has.
constexpr idx_t SELECTED_SHARE = 2;
constexpr idx_t WHOLE_SHARE = 32;

//! Whether some of the rows that OP could give are left out. DELIMS are the table indexes of the DELIM_GETs of which that is known.
bool Selects(const LogicalOperator &op, const unordered_set<idx_t> &delims) {
	switch (op.type) {
	case LogicalOperatorType::LOGICAL_DELIM_GET:
		return delims.count(op.Cast<LogicalDelimGet>().table_index) > 0;
	case LogicalOperatorType::LOGICAL_FILTER:
	case LogicalOperatorType::LOGICAL_TOP_N:
	case LogicalOperatorType::LOGICAL_LIMIT:
		return true;
	case LogicalOperatorType::LOGICAL_GET: {
		auto &get = op.Cast<LogicalGet>();
		return !get.table_filters.filters.empty() || (IsRemoteScan(get.function) && get.bind_data &&
		                                              !get.bind_data->Cast<RemoteScanBindData>().filters.empty());
	}
	default:
		for (auto &child : op.children) {
			if (Selects(*child, delims)) {
				return true;
			}
		}
		return false;
	}
}

//! Finds the DELIM_GETs of OP that read a side from which rows are left out. SELECTS: so does the DELIM_JOIN around it.
void FindSelectingDelims(LogicalOperator &op, bool selects, unordered_set<idx_t> &delims) {
	if (op.type == LogicalOperatorType::LOGICAL_DELIM_GET && selects) {
		delims.insert(op.Cast<LogicalDelimGet>().table_index);
	}
	if (op.type == LogicalOperatorType::LOGICAL_DELIM_JOIN) {
		auto outer = op.Cast<LogicalComparisonJoin>().delim_flipped ? 1 : 0;
		FindSelectingDelims(*op.children[outer], selects, delims);
		FindSelectingDelims(*op.children[1 - outer], Selects(*op.children[outer], delims), delims);
		return;
	}
	for (auto &child : op.children) {
		FindSelectingDelims(*child, selects, delims);
	}
}

typedef vector<unique_ptr<Expression>> expressions_t;

expressions_t CopyAll(const expressions_t &expressions) {
	expressions_t result;
	for (auto &expression : expressions) {
		result.push_back(expression->Copy());
	}
	return result;
}

bool NamesOnly(const expressions_t &expressions, LogicalOperator &op) {
	unordered_set<idx_t> tables, named;
	LogicalJoin::GetTableReferences(op, tables);
	for (auto &expression : expressions) {
		LogicalJoin::GetExpressionBindings(*expression, named);
	}
	for (auto table : named) {
		if (tables.find(table) == tables.end()) {
			return false;
		}
	}
	return true;
}

//! A scan that rows without a partner can be left out of.
struct Target {
	reference<unique_ptr<LogicalOperator>> place;
	vector<string> columns;
	//! How many values they have, about; 0: not known.
	idx_t values;
	//! It is not read by the pipeline that looks for partners, so nothing makes it wait for the keys.
	bool apart;
};

//! Finds the scans whose rows reach a join through PLACE, with the join's EXPRESSIONS over their columns.
class TargetFinder {
public:
	explicit TargetFinder(vector<Target> &targets) : targets(targets) {
	}

	//! What OP leaves out or adds must not hang on rows that have no partner.
	void Find(unique_ptr<LogicalOperator> &place, expressions_t expressions, bool apart) {
		auto &op = *place;
		switch (op.type) {
		case LogicalOperatorType::LOGICAL_FILTER:
			return Find(op.children[0], std::move(expressions), apart);
		case LogicalOperatorType::LOGICAL_EXTENSION_OPERATOR:
			return IsKeyOperator(op) ? Find(op.children[0], std::move(expressions), apart) : void();
		case LogicalOperatorType::LOGICAL_ORDER_BY:
			return Find(op.children[0], std::move(expressions), true);
		case LogicalOperatorType::LOGICAL_DISTINCT:
			if (op.Cast<LogicalDistinct>().distinct_type == DistinctType::DISTINCT) {
				Find(op.children[0], std::move(expressions), true);
			}
			return;
		case LogicalOperatorType::LOGICAL_PROJECTION: {
			auto &projection = op.Cast<LogicalProjection>();
			if (ReplaceColumns(expressions, projection.table_index, projection.expressions)) {
				Find(op.children[0], std::move(expressions), apart);
			}
			return;
		}
		case LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY: {
			auto &aggregate = op.Cast<LogicalAggregate>();
			auto &sets = aggregate.grouping_sets;
			auto all = sets.empty() || (sets.size() == 1 && sets[0].size() == aggregate.groups.size());
			if (all && ReplaceColumns(expressions, aggregate.group_index, aggregate.groups)) {
				Find(op.children[0], std::move(expressions), true);
			}
			return;
		}
		case LogicalOperatorType::LOGICAL_UNION: {
			auto &setop = op.Cast<LogicalSetOperation>();
			for (auto &child : op.children) {
				FindInUnion(setop, child, expressions, apart || !setop.setop_all);
			}
			return;
		}
		case LogicalOperatorType::LOGICAL_CROSS_PRODUCT:
			return FindLeft(op, std::move(expressions), apart);
		case LogicalOperatorType::LOGICAL_COMPARISON_JOIN:
			return FindInJoin(op.Cast<LogicalComparisonJoin>(), std::move(expressions), apart);
		case LogicalOperatorType::LOGICAL_GET:
			return Take(place, expressions, apart);
		default:
			return;
		}
	}

private:
	void FindLeft(LogicalOperator &op, expressions_t expressions, bool apart) {
		if (NamesOnly(expressions, *op.children[0])) {
			Find(op.children[0], std::move(expressions), apart);
		}
	}

	//! The second side is not looked at: it cannot wait for the keys, as its join and the one above are made ready together.
	void FindInJoin(LogicalComparisonJoin &join, expressions_t expressions, bool apart) {
		idx_t ranges = 0;
		if (!join.HasEquality(ranges)) {
			return;
		}
		switch (join.join_type) {
		case JoinType::INNER:
		case JoinType::LEFT:
		case JoinType::SEMI:
		case JoinType::ANTI:
		case JoinType::MARK:
		case JoinType::SINGLE:
			FindLeft(join, std::move(expressions), apart);
			return;
		default:
			return;
		}
	}

	void FindInUnion(LogicalSetOperation &setop, unique_ptr<LogicalOperator> &child, const expressions_t &expressions,
	                 bool apart) {
		child->ResolveOperatorTypes();
		auto bindings = child->GetColumnBindings();
		expressions_t columns;
		for (idx_t i = 0; i < setop.column_count && i < bindings.size(); i++) {
			columns.push_back(make_uniq<BoundColumnRefExpression>(child->types[i], bindings[i]));
		}
		auto own = CopyAll(expressions);
		if (ReplaceColumns(own, setop.table_index, columns)) {
			Find(child, std::move(own), apart);
		}
	}

	void Take(unique_ptr<LogicalOperator> &place, const expressions_t &expressions, bool apart) {
		auto &get = place->Cast<LogicalGet>();
		if (!IsRemoteScan(get.function) || !get.bind_data || get.extra_info.sample_options) {
			return;
		}
		auto &bind = get.bind_data->Cast<RemoteScanBindData>();
		if (!bind.Wrappable() || bind.limit.IsValid() || !bind.source.remote->TakesRows()) {
			return;
		}
		auto writer = ScanColumnWriter(get, bind);
		vector<string> columns;
		for (auto &expression : expressions) {
			string sql;
			if (expression->IsVolatile() || expression->HasParameter() || !ExpressionToSql(*expression, writer, sql)) {
				return;
			}
			columns.push_back(expression->return_type.id() == LogicalTypeId::ENUM ? "CAST(" + sql + " AS VARCHAR)"
			                                                                      : sql);
		}
		targets.push_back({place, std::move(columns), CountValues(get, bind, expressions), apart});
	}

	static idx_t CountValues(const LogicalGet &get, const RemoteScanBindData &bind, const expressions_t &expressions) {
		column_t column;
		ColumnFigures figures;
		return expressions.size() == 1 && FiguresOf(bind, get, *expressions[0], column, figures)
		           ? figures.distinct_count
		           : 0;
	}

	vector<Target> &targets;
};

class KeyPlanner {
public:
	KeyPlanner(ClientContext &context, LogicalOperator &plan) : context(context) {
		FindSelectingDelims(plan, false, delims);
	}

	void Visit(LogicalOperator &op) {
		if (op.type == LogicalOperatorType::LOGICAL_RECURSIVE_CTE) {
			// Its joins are read more than once.
			return;
		}
		if (op.type == LogicalOperatorType::LOGICAL_COMPARISON_JOIN) {
			Reduce(op.Cast<LogicalComparisonJoin>());
		}
		for (auto &child : op.children) {
			Visit(*child);
		}
	}

private:
	//! Whether rows of the first side that have no partner may be left out.
	static bool DropsUnmatched(JoinType type) {
		switch (type) {
		case JoinType::INNER:
		case JoinType::SEMI:
		case JoinType::RIGHT:
		case JoinType::RIGHT_SEMI:
		case JoinType::RIGHT_ANTI:
			return true;
		default:
			return false;
		}
	}

	//! The targets of a key made of the conditions WHICH.
	vector<Target> FindTargets(LogicalComparisonJoin &join, const vector<idx_t> &which) {
		vector<Target> targets;
		expressions_t expressions;
		for (auto i : which) {
			expressions.push_back(join.conditions[i].left->Copy());
		}
		TargetFinder(targets).Find(join.children[0], std::move(expressions), false);
		return targets;
	}

	//! A type that the text of a query can name; that of an ENUM's keys is VARCHAR.
	static bool HasKeyType(const JoinCondition &condition) {
		auto &type = condition.right->return_type;
		return type.id() == LogicalTypeId::ENUM || !TypeToSql(type).empty();
	}

	bool IsKey(const JoinCondition &condition, ExpressionType comparison) {
		return condition.comparison == comparison && !condition.right->IsVolatile() &&
		       condition.left->return_type == condition.right->return_type && HasKeyType(condition) &&
		       IsComparable(condition.left->return_type, ExpressionType::COMPARE_EQUAL);
	}

	//! All conditions of one scan that are equalities, else one; else one that finds NULLs too.
	void Reduce(LogicalComparisonJoin &join) {
		if (!DropsUnmatched(join.join_type)) {
			return;
		}
		vector<idx_t> equal;
		vector<idx_t> usable;
		for (idx_t i = 0; i < join.conditions.size(); i++) {
			if (IsKey(join.conditions[i], ExpressionType::COMPARE_EQUAL) && !FindTargets(join, {i}).empty()) {
				equal.push_back(i);
			}
			if (IsKey(join.conditions[i], ExpressionType::COMPARE_NOT_DISTINCT_FROM)) {
				usable.push_back(i);
			}
		}
		if (equal.size() > 1 && !FindTargets(join, equal).empty()) {
			return Send(join, equal, false);
		}
		for (auto i : equal) {
			// Of different scans.
			Send(join, {i}, false);
		}
		if (equal.empty() && !usable.empty()) {
			Send(join, {usable[0]}, true);
		}
	}

	void Send(LogicalComparisonJoin &join, const vector<idx_t> &which, bool keep_null) {
		auto &side = join.children[1];
		auto rows = side->EstimateCardinality(context);
		vector<LogicalType> types;
		expressions_t expressions;
		idx_t width = 0;
		for (auto i : which) {
			auto expression = join.conditions[i].right->Copy();
			if (expression->return_type.id() == LogicalTypeId::ENUM) {
				expression = BoundCastExpression::AddCastToType(context, std::move(expression), LogicalType::VARCHAR);
			}
			types.push_back(expression->return_type);
			width += MaxValue(idx_t(JoinKeys::MIN_KEY_BYTES), ValueBytes(types.back()));
			expressions.push_back(std::move(expression));
		}
		auto share = Selects(*side, delims) ? SELECTED_SHARE : WHOLE_SHARE;
		idx_t most = 0;
		vector<Target> worth;
		for (auto &target : FindTargets(join, which)) {
			auto &get = target.place.get()->Cast<LogicalGet>();
			auto scan_bytes = ScanBytes(context, get);
			if (scan_bytes >= MIN_SCAN_BYTES && rows * width <= scan_bytes / share) {
				most = MaxValue(most, scan_bytes / share);
				worth.push_back(std::move(target));
			}
		}
		if (worth.empty()) {
			return;
		}
		auto keys = make_shared_ptr<JoinKeys>(std::move(types), keep_null, MinValue(most, MAX_KEY_BYTES), rows);
		string shown;
		for (auto &target : worth) {
			auto &get = target.place.get()->Cast<LogicalGet>();
			auto &bind = get.bind_data->Cast<RemoteScanBindData>();
			shown += (shown.empty() ? "" : "\n") + StringUtil::Join(target.columns, ", ") + " of " +
			         (bind.source.entry ? bind.source.entry->name : "a query");
			bind.key_filters.push_back({keys, std::move(target.columns), target.values});
			if (target.apart) {
				target.place.get() = PlanKeyBarrier(keys, std::move(target.place.get()));
			}
		}
		side = PlanKeyCollector(std::move(keys), std::move(expressions), std::move(shown), std::move(side));
		side->ResolveOperatorTypes();
	}

	ClientContext &context;
	unordered_set<idx_t> delims;
};

} // namespace

void PlanJoinKeys(ClientContext &context, LogicalOperator &plan) {
	// Joins by ranges read their sides in another order.
	if (!Settings::Get<PreferRangeJoinsSetting>(context)) {
		KeyPlanner(context, plan).Visit(plan);
	}
}

} // namespace openduck
