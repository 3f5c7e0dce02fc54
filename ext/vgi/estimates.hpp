//===----------------------------------------------------------------------===//
// vgi/estimates.hpp: what a worker says of its columns' values
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/remote.hpp"

#include "duckdb/planner/expression.hpp"
#include "duckdb/storage/statistics/base_statistics.hpp"

namespace vgi {

//! Of one column; all of it may be unknown. It guides estimates alone: DuckDB takes a column's bounds and nulls for true (it drops
//! conditions, narrows types and leaves out checks by them), and what a worker says may be old or wrong.
struct ColumnEstimate {
	optional_idx distinct;
	bool has_range = false;
	double min = 0, max = 0;
	//! Arrow's, of both.
	string format;
};
using NamedEstimates = case_insensitive_map_t<ColumnEstimate>;

NamedEstimates ReadEstimates(const od_vgi_statistics &told);

//! Those of a scan's columns by their place, asked for when the first one is wanted. Thread: any.
class ScanEstimates {
public:
	using Source = std::function<vector<ColumnEstimate>(ClientContext &)>;
	explicit ScanEstimates(Source source) : source(std::move(source)) {
	}

	//! Nothing is asked for before: where rows of one place are not weighed against others', nobody would use it.
	void Want() {
		wanted = true;
	}
	//! Asks OTHER instead.
	void Replace(Source other);
	const vector<ColumnEstimate> &Get(ClientContext &context);

private:
	atomic<bool> wanted {false};
	mutex lock; //!< guards the fields below, also while they are asked for
	Source source;
	bool known = false;
	vector<ColumnEstimate> columns;
};

//! What DuckDB's optimizer may know of a column of TYPE: how many values it has. Null: nothing.
unique_ptr<BaseStatistics> ToStatistics(const ColumnEstimate &estimate, const LogicalType &type, optional_idx rows);

//! Which part of the rows meet FILTER, an expression over references to columns: 0 to 1. SCHEMA: the columns as the worker has them.
double EstimateSelectivity(const Expression &filter, const vector<ColumnEstimate> &columns, const ArrowSchema &schema);

} // namespace vgi
