//===----------------------------------------------------------------------===//
// openduck/pushdown_aggregate.cpp: groups and aggregates that the server makes of a scan's rows
//===----------------------------------------------------------------------===//
#include "openduck/scan.hpp"

#include "duckdb/optimizer/optimizer.hpp"
#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/operator/list.hpp"

namespace openduck {

namespace {

//! Whether the result is the same in whatever order the rows come.
bool IsExact(const BoundAggregateExpression &aggregate) {
	auto &name = aggregate.function.name;
	if (name == "count_star") {
		return aggregate.children.empty();
	}
	if (aggregate.children.size() != 1) {
		return false;
	}
	auto &type = aggregate.children[0]->return_type;
	if (name == "sum" || name == "avg") {
		return type.IsIntegral() || type.id() == LogicalTypeId::DECIMAL;
	}
	return name == "count" || ((name == "min" || name == "max") && !TypeToSql(type).empty());
}

} // namespace

bool IsExactAggregate(const LogicalAggregate &aggregate) {
	auto &sets = aggregate.grouping_sets;
	if (!aggregate.grouping_functions.empty() ||
	    (!sets.empty() && (sets.size() > 1 || sets[0].size() != aggregate.groups.size()))) {
		return false;
	}
	for (auto &expression : aggregate.expressions) {
		auto &bound = expression->Cast<BoundAggregateExpression>();
		auto &catalog = bound.function.catalog_name;
		if (!IsExact(bound) || bound.order_bys || (!catalog.empty() && catalog != SYSTEM_CATALOG) ||
		    TypeToSql(bound.return_type).empty()) {
			return false;
		}
	}
	return true;
}

namespace {

class AggregatePusher {
public:
	AggregatePusher(Binder &binder, ClientContext &context, unique_ptr<LogicalOperator> &root)
	    : binder(binder), context(context), root(root) {
	}

	void Visit(unique_ptr<LogicalOperator> &place) {
		if (place->type == LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY) {
			Push(place);
		}
		for (auto &child : place->children) {
			Visit(child);
		}
	}

private:
	//! Puts a scan of what the server makes in the place of an aggregate over a scan.
	void Push(unique_ptr<LogicalOperator> &place) {
		auto &aggregate = place->Cast<LogicalAggregate>();
		if (!IsExactAggregate(aggregate)) {
			return;
		}
		vector<unique_ptr<Expression>> inputs;
		auto scan = FindScan(aggregate, inputs);
		if (!scan) {
			return;
		}
		vector<RemoteColumn> columns;
		auto sql = Write(*scan, aggregate, inputs, columns);
		if (!sql.empty()) {
			auto rows = aggregate.groups.empty() ? 1 : aggregate.EstimateCardinality(context);
			ReplaceByScan({binder, root, place}, scan->bind_data->Cast<RemoteScanBindData>().source, std::move(sql),
			              std::move(columns), rows);
		}
	}

	//! The scan below AGGREGATE, if only projections lie between: INPUTS become its groups, and then for each aggregate its
	//! arguments and its filter, over the scan's columns.
	optional_ptr<LogicalGet> FindScan(LogicalAggregate &aggregate, vector<unique_ptr<Expression>> &inputs) {
		for (auto &group : aggregate.groups) {
			inputs.push_back(group->Copy());
		}
		for (auto &expression : aggregate.expressions) {
			auto &bound = expression->Cast<BoundAggregateExpression>();
			for (auto &child : bound.children) {
				inputs.push_back(child->Copy());
			}
			if (bound.filter) {
				inputs.push_back(bound.filter->Copy());
			}
		}
		reference<LogicalOperator> child = *aggregate.children[0];
		while (child.get().type == LogicalOperatorType::LOGICAL_PROJECTION) {
			auto &projection = child.get().Cast<LogicalProjection>();
			if (!ReplaceColumns(inputs, projection.table_index, projection.expressions)) {
				return nullptr;
			}
			child = *projection.children[0];
		}
		if (child.get().type != LogicalOperatorType::LOGICAL_GET) {
			return nullptr;
		}
		auto &get = child.get().Cast<LogicalGet>();
		if (!IsRemoteScan(get.function) || !get.bind_data || get.extra_info.sample_options) {
			return nullptr;
		}
		auto &bind = get.bind_data->Cast<RemoteScanBindData>();
		// A count alone is the scan's own business.
		auto counts_only = inputs.empty();
		if (!bind.Wrappable() || bind.limit.IsValid() || !bind.key_filters.empty() || counts_only) {
			return nullptr;
		}
		return get;
	}

	//! The SELECT; empty if the server cannot do it. COLUMNS are what it gives.
	string Write(LogicalGet &get, LogicalAggregate &aggregate, const vector<unique_ptr<Expression>> &inputs,
	             vector<RemoteColumn> &columns) {
		auto &bind = get.bind_data->Cast<RemoteScanBindData>();
		auto from = ScanFromSql(bind, get.table_filters);
		if (from.empty()) {
			return string();
		}
		auto writer = ScanColumnWriter(get, bind);
		vector<string> written;
		for (auto &input : inputs) {
			string sql;
			if (input->IsVolatile() || input->HasParameter() || !ComputationToSql(*input, writer, sql)) {
				return string();
			}
			written.push_back(std::move(sql));
		}
		vector<string> outputs;
		for (idx_t i = 0; i < aggregate.groups.size(); i++) {
			auto &type = aggregate.groups[i]->return_type;
			if (TypeToSql(type).empty()) {
				return string();
			}
			outputs.push_back(written[i]);
			columns.push_back({"c" + to_string(columns.size()), type});
		}
		auto groups = StringUtil::Join(outputs, ", ");
		auto next = outputs.size();
		for (auto &expression : aggregate.expressions) {
			auto &bound = expression->Cast<BoundAggregateExpression>();
			outputs.push_back(WriteAggregate(bound, written, next));
			columns.push_back({"c" + to_string(columns.size()), bound.return_type});
		}
		for (idx_t i = 0; i < outputs.size(); i++) {
			outputs[i] += " AS " + columns[i].name;
		}
		return "SELECT " + StringUtil::Join(outputs, ", ") + from + (groups.empty() ? "" : " GROUP BY " + groups);
	}

	//! With the arguments (and the filter) from WRITTEN[NEXT] on.
	static string WriteAggregate(const BoundAggregateExpression &bound, const vector<string> &written, idx_t &next) {
		string sql = bound.function.name + "(" + (bound.IsDistinct() ? "DISTINCT " : "");
		if (bound.children.empty()) {
			sql = "count(*";
		} else {
			sql += written[next++];
		}
		sql += ")";
		return bound.filter ? sql + " FILTER (WHERE " + written[next++] + ")" : sql;
	}

	Binder &binder;
	ClientContext &context;
	unique_ptr<LogicalOperator> &root;
};

} // namespace

void PushAggregates(OptimizerExtensionInput &input, unique_ptr<LogicalOperator> &plan) {
	AggregatePusher(input.optimizer.binder, input.context, plan).Visit(plan);
}

} // namespace openduck
