//===----------------------------------------------------------------------===//
// openduck/pushdown_join.cpp: joins of two scans of one server that the server makes
//===----------------------------------------------------------------------===//
#include "openduck/scan.hpp"

#include "duckdb/optimizer/optimizer.hpp"
#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/operator/list.hpp"

namespace openduck {

namespace {

typedef vector<unique_ptr<Expression>> expressions_t;

//! A side of a join: a scan, perhaps below projections and filters.
class JoinSide {
public:
	JoinSide(string alias_p, LogicalOperator &root_p) : alias(std::move(alias_p)), root(root_p) {
		reference<LogicalOperator> child = root;
		expressions_t filters;
		for (; child.get().type != LogicalOperatorType::LOGICAL_GET; child = *child.get().children[0]) {
			if (!LookThrough(child, filters)) {
				return;
			}
		}
		auto &get = child.get().Cast<LogicalGet>();
		if (!IsRemoteScan(get.function) || !get.bind_data || get.extra_info.sample_options) {
			return;
		}
		auto &data = get.bind_data->Cast<RemoteScanBindData>();
		if (!data.Wrappable() || data.limit.IsValid() || !data.key_filters.empty()) {
			return;
		}
		from = ScanFromSql(data, get.table_filters);
		vector<string> conditions;
		auto writer = ScanColumnWriter(get, data);
		for (auto &filter : filters) {
			string sql;
			if (filter->IsVolatile() || filter->HasParameter() || !ExpressionToSql(*filter, writer, sql)) {
				return;
			}
			conditions.push_back(std::move(sql));
		}
		if (!from.empty()) {
			if (!conditions.empty()) {
				from = " FROM (SELECT *" + from + ") WHERE " + StringUtil::Join(conditions, " AND ");
			}
			scan = get;
			bind = data;
			root.ResolveOperatorTypes();
			bindings = root.GetColumnBindings();
		}
	}

	bool IsScan() const {
		return scan;
	}
	LogicalGet &Scan() {
		return *scan;
	}
	RemoteScanBindData &Bind() {
		return *bind;
	}

	//! The type of its column BINDING; invalid if it has none such.
	LogicalType TypeOf(const ColumnBinding &binding) const {
		for (idx_t i = 0; i < bindings.size(); i++) {
			if (bindings[i] == binding) {
				return root.types[i];
			}
		}
		return LogicalType::INVALID;
	}

	//! EXPRESSION, over its columns, as a column of its SELECT ("l.c0"). False if the server cannot compute it.
	bool Name(const Expression &expression, string &name) {
		expressions_t inner;
		inner.push_back(expression.Copy());
		reference<LogicalOperator> child = root;
		for (; child.get().type != LogicalOperatorType::LOGICAL_GET; child = *child.get().children[0]) {
			if (!ThroughProjection(child, inner)) {
				return false;
			}
		}
		string sql;
		if (inner[0]->IsVolatile() || inner[0]->HasParameter() ||
		    !ComputationToSql(*inner[0], ScanColumnWriter(*scan, *bind), sql)) {
			return false;
		}
		auto at = idx_t(std::find(columns.begin(), columns.end(), sql) - columns.begin());
		if (at == columns.size()) {
			columns.push_back(std::move(sql));
		}
		name = alias + ".c" + to_string(at);
		return true;
	}

	//! "(SELECT ...) AS l", with the columns that were named.
	string FromItem() const {
		string list;
		for (idx_t i = 0; i < columns.size(); i++) {
			list += (i ? ", " : "") + columns[i] + " AS c" + to_string(i);
		}
		return "(SELECT " + list + from + ") AS " + alias;
	}

private:
	//! EXPRESSIONS over the columns of OP become such over those of its child.
	static bool ThroughProjection(LogicalOperator &op, expressions_t &expressions) {
		if (op.type != LogicalOperatorType::LOGICAL_PROJECTION) {
			return true;
		}
		auto &projection = op.Cast<LogicalProjection>();
		return ReplaceColumns(expressions, projection.table_index, projection.expressions);
	}
	//! As above, also of FILTERS, to which those of OP are added. False if OP is neither projection nor filter.
	static bool LookThrough(LogicalOperator &op, expressions_t &filters) {
		if (op.type == LogicalOperatorType::LOGICAL_FILTER) {
			for (auto &expression : op.expressions) {
				filters.push_back(expression->Copy());
			}
			return true;
		}
		return op.type == LogicalOperatorType::LOGICAL_PROJECTION && ThroughProjection(op, filters);
	}

	const string alias;
	LogicalOperator &root;
	optional_ptr<LogicalGet> scan;
	optional_ptr<RemoteScanBindData> bind;
	string from;
	vector<ColumnBinding> bindings;
	vector<string> columns;
};

//! How SQL has a join of TYPE, and whether its sides are exchanged there. Empty if it has none.
string JoinWord(JoinType type, bool &exchanged) {
	exchanged = type == JoinType::RIGHT_SEMI || type == JoinType::RIGHT_ANTI;
	switch (type) {
	case JoinType::INNER:
		return "JOIN";
	case JoinType::LEFT:
		return "LEFT JOIN";
	case JoinType::RIGHT:
		return "RIGHT JOIN";
	case JoinType::OUTER:
		return "FULL JOIN";
	case JoinType::SEMI:
	case JoinType::RIGHT_SEMI:
		return "SEMI JOIN";
	case JoinType::ANTI:
	case JoinType::RIGHT_ANTI:
		return "ANTI JOIN";
	default:
		return string();
	}
}

//! Gives rows of one side, and no more than it has.
bool IsSemiOrAnti(JoinType type) {
	return type == JoinType::SEMI || type == JoinType::ANTI || type == JoinType::RIGHT_SEMI ||
	       type == JoinType::RIGHT_ANTI;
}

class JoinPusher {
public:
	JoinPusher(Binder &binder, ClientContext &context, unique_ptr<LogicalOperator> &root)
	    : binder(binder), context(context), root(root) {
	}

	//! From below, so that a join of joins becomes one, too. SUMMED: what comes of PLACE ends in an aggregate at the server.
	void Visit(unique_ptr<LogicalOperator> &place, bool summed) {
		if (place->type == LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY) {
			summed = IsExactAggregate(place->Cast<LogicalAggregate>()) && IsRemoteTree(*place->children[0]);
		}
		for (auto &child : place->children) {
			Visit(child, summed);
		}
		if (place->type == LogicalOperatorType::LOGICAL_COMPARISON_JOIN) {
			Push(place, summed);
		}
	}

private:
	//! Only joins of scans that are ours.
	static bool IsRemoteTree(const LogicalOperator &op) {
		switch (op.type) {
		case LogicalOperatorType::LOGICAL_GET:
			return IsRemoteScan(op.Cast<LogicalGet>().function);
		case LogicalOperatorType::LOGICAL_PROJECTION:
		case LogicalOperatorType::LOGICAL_FILTER:
		case LogicalOperatorType::LOGICAL_COMPARISON_JOIN:
			for (auto &child : op.children) {
				if (!IsRemoteTree(*child)) {
					return false;
				}
			}
			return true;
		default:
			return false;
		}
	}

	void Push(unique_ptr<LogicalOperator> &place, bool summed) {
		auto &join = place->Cast<LogicalComparisonJoin>();
		bool exchanged;
		auto word = JoinWord(join.join_type, exchanged);
		if (word.empty() || join.predicate || !join.duplicate_eliminated_columns.empty()) {
			return;
		}
		JoinSide left("l", *join.children[0]), right("r", *join.children[1]);
		if (!left.IsScan() || !right.IsScan() || !SameServer(left.Bind().source, right.Bind().source)) {
			return;
		}
		vector<RemoteColumn> columns;
		vector<string> outputs;
		idx_t width = 1;
		for (auto &binding : join.GetColumnBindings()) {
			auto is_left = left.TypeOf(binding).id() != LogicalTypeId::INVALID;
			auto &side = is_left ? left : right;
			auto type = side.TypeOf(binding);
			string name;
			if (type.id() == LogicalTypeId::INVALID || !side.Name(BoundColumnRefExpression(type, binding), name)) {
				return;
			}
			columns.push_back({"c" + to_string(columns.size()), type});
			outputs.push_back(name + " AS " + columns.back().name);
			width += ValueBytes(type);
		}
		auto rows = join.EstimateCardinality(context);
		if (IsSemiOrAnti(join.join_type)) {
			rows = MinValue(rows, (exchanged ? right : left).Scan().EstimateCardinality(context));
		} else if (!summed && rows * width > ScanBytes(context, left.Scan()) + ScanBytes(context, right.Scan())) {
			return;
		}
		if (outputs.empty()) {
			return;
		}
		vector<string> conditions;
		for (auto &condition : join.conditions) {
			string one, other;
			if (!IsComparable(condition.left->return_type, condition.comparison) ||
			    condition.left->return_type != condition.right->return_type || !left.Name(*condition.left, one) ||
			    !right.Name(*condition.right, other)) {
				return;
			}
			conditions.push_back(one + " " + ExpressionTypeToOperator(condition.comparison) + " " + other);
		}
		auto &first = exchanged ? right : left;
		auto &second = exchanged ? left : right;
		ReplaceByScan({binder, root, place}, first.Bind().source,
		              "SELECT " + StringUtil::Join(outputs, ", ") + " FROM " + first.FromItem() + " " + word + " " +
		                  second.FromItem() + " ON " + StringUtil::Join(conditions, " AND "),
		              std::move(columns), rows);
	}

	static bool SameServer(const RemoteScanSource &a, const RemoteScanSource &b) {
		return a.remote == b.remote && a.owned == b.owned && a.catalog_version == b.catalog_version &&
		       a.transaction.lock() == b.transaction.lock();
	}

	Binder &binder;
	ClientContext &context;
	unique_ptr<LogicalOperator> &root;
};

} // namespace

void PushJoins(OptimizerExtensionInput &input, unique_ptr<LogicalOperator> &plan) {
	JoinPusher(input.optimizer.binder, input.context, plan).Visit(plan, false);
}

} // namespace openduck
