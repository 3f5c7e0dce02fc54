//===----------------------------------------------------------------------===//
// openduck/pushdown_bound.cpp: the bound of a TOP N, which remote scans that start later are sent with
//===----------------------------------------------------------------------===//
#include "openduck/join_keys.hpp"
#include "openduck/pass_through.hpp"
#include "openduck/pushdown.hpp"
#include "openduck/scan.hpp"

#include "duckdb/execution/physical_operator.hpp"
#include "duckdb/execution/physical_plan_generator.hpp"
#include "duckdb/parallel/meta_pipeline.hpp"
#include "duckdb/planner/filter/conjunction_filter.hpp"
#include "duckdb/planner/filter/dynamic_filter.hpp"
#include "duckdb/planner/filter/optional_filter.hpp"
#include "duckdb/planner/operator/list.hpp"

namespace openduck {

namespace {

//! What a scan would give without a bound is worth the wait from here on.
constexpr idx_t MIN_BOUND_BYTES = idx_t(16) << 10;
//! So many rows of this side are read in the time in which one comes from a server, about.
constexpr idx_t ROWS_READ_HERE = 16;

//===--------------------------------------------------------------------===//
// What waits
//===--------------------------------------------------------------------===//
class PhysicalBoundBarrier : public PhysicalOperator {
public:
	static constexpr const PhysicalOperatorType TYPE = PhysicalOperatorType::EXTENSION;

	PhysicalBoundBarrier(PhysicalPlan &plan, vector<LogicalType> types, idx_t estimated_cardinality)
	    : PhysicalOperator(plan, TYPE, std::move(types), estimated_cardinality) {
	}

	string GetName() const override {
		return "OPENDUCK_AWAIT_BOUND";
	}
	bool ParallelOperator() const override {
		return true;
	}
	OperatorResultType Execute(ExecutionContext &context, DataChunk &input, DataChunk &chunk,
	                           GlobalOperatorState &gstate, OperatorState &state) const override {
		chunk.Reference(input);
		return OperatorResultType::NEED_MORE_INPUT;
	}
	//! The pipelines of the union's first child have been built, and none of them waits for this one's.
	void BuildPipelines(Pipeline &current, MetaPipeline &meta_pipeline) override {
		meta_pipeline.AddDependenciesFrom(current, *meta_pipeline.GetBasePipeline(), true);
		PhysicalOperator::BuildPipelines(current, meta_pipeline);
	}
};

class LogicalBoundBarrier : public LogicalPassThrough {
public:
	using LogicalPassThrough::LogicalPassThrough;
	string GetName() const override {
		return "OPENDUCK_AWAIT_BOUND";
	}
	PhysicalOperator &CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) override {
		auto &child = planner.CreatePlan(*children[0]);
		auto &result = planner.Make<PhysicalBoundBarrier>(types, child.estimated_cardinality);
		result.children.push_back(child);
		return result;
	}
};

//===--------------------------------------------------------------------===//
// Where bounds are right
//===--------------------------------------------------------------------===//
typedef unordered_set<const DynamicFilterData *> bounds_t;

bool IsRemoteGet(const LogicalOperator &op) {
	return op.type == LogicalOperatorType::LOGICAL_GET && IsRemoteScan(op.Cast<LogicalGet>().function) &&
	       op.Cast<LogicalGet>().bind_data;
}

bool HasRemoteScan(const LogicalOperator &op) {
	if (IsRemoteGet(op)) {
		return true;
	}
	for (auto &child : op.children) {
		if (HasRemoteScan(*child)) {
			return true;
		}
	}
	return false;
}

//! What the AND or OR FILTER is made of.
vector<unique_ptr<TableFilter>> &Parts(TableFilter &filter) {
	return static_cast<ConjunctionFilter &>(filter).child_filters;
}

bool HasBound(TableFilter &filter, const DynamicFilterData &bound) {
	switch (filter.filter_type) {
	case TableFilterType::DYNAMIC_FILTER:
		return filter.Cast<DynamicFilter>().filter_data.get() == &bound;
	case TableFilterType::OPTIONAL_FILTER: {
		auto &child = filter.Cast<OptionalFilter>().child_filter;
		return child && HasBound(*child, bound);
	}
	case TableFilterType::CONJUNCTION_AND:
	case TableFilterType::CONJUNCTION_OR:
		for (auto &child : Parts(filter)) {
			if (HasBound(*child, bound)) {
				return true;
			}
		}
		return false;
	default:
		return false;
	}
}

//! Takes bounds that are not in ALLOWED out of FILTER. False if nothing is left of it.
bool KeepBounds(TableFilter &filter, const bounds_t &allowed) {
	switch (filter.filter_type) {
	case TableFilterType::DYNAMIC_FILTER:
		return allowed.count(filter.Cast<DynamicFilter>().filter_data.get()) > 0;
	case TableFilterType::OPTIONAL_FILTER: {
		auto &child = filter.Cast<OptionalFilter>().child_filter;
		return !child || KeepBounds(*child, allowed);
	}
	case TableFilterType::CONJUNCTION_OR:
		for (auto &child : Parts(filter)) {
			if (!KeepBounds(*child, allowed)) {
				return false;
			}
		}
		return true;
	case TableFilterType::CONJUNCTION_AND: {
		auto &children = Parts(filter);
		for (idx_t i = children.size(); i-- > 0;) {
			if (!KeepBounds(*children[i], allowed)) {
				children.erase_at(i);
			}
		}
		return !children.empty();
	}
	default:
		return true;
	}
}

class BoundPlanner {
public:
	BoundPlanner(ClientContext &context, Binder &binder) : context(context), binder(binder) {
	}

	void Visit(LogicalOperator &op) {
		if (op.type == LogicalOperatorType::LOGICAL_TOP_N && op.Cast<LogicalTopN>().dynamic_filter) {
			auto &top = op.Cast<LogicalTopN>();
			Reach(top, op.children[0], false);
		}
		for (auto &child : op.children) {
			Visit(*child);
		}
		if (IsRemoteGet(op)) {
			DropOthers(op.Cast<LogicalGet>());
		}
	}

private:
	//! Down to the scans whose rows come to TOP one by one, each with what it is bounded by: a row that is left out there makes no other
	//! row, and is counted by nobody. WAITS: what is here starts when rows have come to TOP.
	void Reach(const LogicalTopN &top, unique_ptr<LogicalOperator> &place, bool waits) {
		auto &op = *place;
		switch (op.type) {
		case LogicalOperatorType::LOGICAL_PROJECTION:
		case LogicalOperatorType::LOGICAL_FILTER:
		case LogicalOperatorType::LOGICAL_CROSS_PRODUCT:
			return Reach(top, op.children[0], waits);
		case LogicalOperatorType::LOGICAL_EXTENSION_OPERATOR:
			return IsKeyOperator(op) ? Reach(top, op.children[0], waits) : void();
		case LogicalOperatorType::LOGICAL_COMPARISON_JOIN:
			switch (op.Cast<LogicalComparisonJoin>().join_type) {
			case JoinType::INNER:
			case JoinType::LEFT:
			case JoinType::SEMI:
			case JoinType::ANTI:
			case JoinType::MARK:
			case JoinType::SINGLE:
				return Reach(top, op.children[0], waits);
			default:
				return;
			}
		case LogicalOperatorType::LOGICAL_UNION:
			if (op.Cast<LogicalSetOperation>().setop_all) {
				ReachUnion(top, op.Cast<LogicalSetOperation>(), waits);
			}
			return;
		case LogicalOperatorType::LOGICAL_GET:
			if (waits && IsRemoteGet(op) && TakesBound(top, op.Cast<LogicalGet>())) {
				allowed[&op].insert(top.dynamic_filter.get());
				op.Cast<LogicalGet>().bind_data->Cast<RemoteScanBindData>().awaits_bound = true;
			}
			return;
		default:
			return;
		}
	}

	//! The union's children that are all of this side go first, and the others wait for them.
	void ReachUnion(const LogicalTopN &top, LogicalSetOperation &setop, bool waits) {
		if (waits) {
			for (auto &child : setop.children) {
				Reach(top, child, true);
			}
			return;
		}
		idx_t rows_here = 0, rows_there = 0;
		bool worth = false;
		for (auto &child : setop.children) {
			auto remote = HasRemoteScan(*child);
			(remote ? rows_there : rows_here) += child->EstimateCardinality(context);
			worth |= remote && IsWorth(top, *child);
		}
		// Of fewer rows no bound comes.
		if (!worth || rows_here < top.limit + top.offset || rows_here / ROWS_READ_HERE > rows_there) {
			return;
		}
		vector<unique_ptr<LogicalOperator>> here, there;
		for (auto &child : setop.children) {
			(HasRemoteScan(*child) ? there : here).push_back(std::move(child));
		}
		setop.children.clear();
		setop.children.push_back(Unite(setop, std::move(here)));
		setop.children.push_back(make_uniq<LogicalBoundBarrier>(Unite(setop, std::move(there))));
		setop.children[1]->ResolveOperatorTypes();
		Reach(top, setop.children[1]->children[0], true);
	}

	unique_ptr<LogicalOperator> Unite(const LogicalSetOperation &setop, vector<unique_ptr<LogicalOperator>> parts) {
		if (parts.size() == 1) {
			return std::move(parts[0]);
		}
		idx_t rows = 0;
		for (auto &part : parts) {
			rows += part->EstimateCardinality(context);
		}
		unique_ptr<LogicalOperator> result =
		    make_uniq<LogicalSetOperation>(binder.GenerateTableIndex(), setop.column_count, std::move(parts),
		                                   setop.type, true, setop.allow_out_of_order);
		result->SetEstimatedCardinality(rows);
		result->ResolveOperatorTypes();
		return result;
	}

	static bool TakesBound(const LogicalTopN &top, LogicalGet &get) {
		for (auto &entry : get.table_filters.filters) {
			if (HasBound(*entry.second, *top.dynamic_filter)) {
				auto &bind = get.bind_data->Cast<RemoteScanBindData>();
				return bind.Wrappable() && !bind.limit.IsValid();
			}
		}
		return false;
	}

	//! Whether a scan of OP would give much, and takes the bound.
	bool IsWorth(const LogicalTopN &top, LogicalOperator &op) {
		if (IsRemoteGet(op)) {
			auto &get = op.Cast<LogicalGet>();
			return TakesBound(top, get) && ScanBytes(context, get) >= MIN_BOUND_BYTES;
		}
		for (auto &child : op.children) {
			if (IsWorth(top, *child)) {
				return true;
			}
		}
		return false;
	}

	void DropOthers(LogicalGet &get) {
		auto &filters = get.table_filters.filters;
		for (auto entry = filters.begin(); entry != filters.end();) {
			entry = KeepBounds(*entry->second, allowed[&get]) ? std::next(entry) : filters.erase(entry);
		}
	}

	ClientContext &context;
	Binder &binder;
	unordered_map<const LogicalOperator *, bounds_t> allowed;
};

} // namespace

void PlanBounds(ClientContext &context, Binder &binder, LogicalOperator &plan) {
	BoundPlanner(context, binder).Visit(plan);
}

} // namespace openduck
