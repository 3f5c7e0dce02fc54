//===----------------------------------------------------------------------===//
// openduck/selectivity.hpp: what part of a table's rows conditions leave, by what its catalog knows of the columns
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/common/map.hpp"
#include "duckdb/planner/operator/logical_get.hpp"

namespace openduck {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

class RemoteScanBindData;

//! What is known of a column's values.
struct ColumnFigures {
	idx_t distinct_count = 0; // about; 0: not known
	//! Places on one line (days, microseconds, a decimal's value); known if LOWEST < HIGHEST.
	double lowest = 0;
	double highest = 0;

	bool HasRange() const {
		return lowest < highest;
	}
};

//! Of a column of TYPE, with its bounds as text; NULL or what cannot be read is not known.
ColumnFigures MakeColumnFigures(idx_t distinct_count, const Value &lowest, const Value &highest,
                                const LogicalType &type);

//! If EXPRESSION is a column of GET, whose data is BIND, and something is known of it: which, and what.
bool FiguresOf(const RemoteScanBindData &bind, const LogicalGet &get, const Expression &expression, column_t &column,
               ColumnFigures &figures);

//! Of conditions that hold together. Values are taken to lie evenly between the lowest and the highest; columns may hang
//! together, so that of several the one counts that leaves least.
class Selectivity {
public:
	//! BIND is GET's; both must outlive it.
	Selectivity(const RemoteScanBindData &bind, const LogicalGet &get) : bind(bind), get(get) {
	}

	void Add(const Expression &condition);
	//! Above 0, at most 1.
	double Part() const;

private:
	//! What is left of a column's range.
	struct Range {
		ColumnFigures figures;
		double low;
		double high;
	};

	bool AddComparison(const Expression &left, ExpressionType type, const Expression &right);
	bool AddBound(const Expression &column, ExpressionType type, const Expression &bound);
	bool AddIn(const Expression &condition);
	void Leave(double part);

	const RemoteScanBindData &bind;
	const LogicalGet &get;
	double part = 1;
	map<column_t, Range> ranges;
};

} // namespace openduck
