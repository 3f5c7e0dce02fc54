//===----------------------------------------------------------------------===//
// openduck/join_keys.hpp: the keys of one side of a join, which the server looks for in the other side
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/parameters.hpp"

#include "duckdb.hpp"
#include "duckdb/common/types/column/column_data_collection.hpp"
#include "duckdb/parallel/pipeline.hpp"
#include "duckdb/planner/logical_operator.hpp"

namespace duckdb {
class GroupedAggregateHashTable;
}

namespace openduck {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

//! The distinct keys of the side of a hash join that is read first, gathered as its rows pass. Complete when the pipelines of
//! that side are; until then nobody may ask for them. Thread: any.
class JoinKeys {
public:
	//! What each column of a key counts for at least.
	static constexpr idx_t MIN_KEY_BYTES = 8;

	//! Keys are rows of TYPES. With KEEP_NULL (one column only) a NULL is a key like others, else none. More than MAX_BYTES of
	//! them are not kept.
	JoinKeys(vector<LogicalType> types, bool keep_null, idx_t max_bytes, idx_t estimated_rows);
	~JoinKeys();

	const vector<LogicalType> types;
	const bool keep_null;
	const idx_t estimated_rows;

	//! Forgets all: the side is about to be read, perhaps again.
	void Begin(ClientContext &context);
	//! The keys of some rows.
	void Add(DataChunk &rows);
	//! There are more than are kept: the other side is read without them.
	bool TooMany() const {
		return too_many;
	}
	idx_t Count();
	bool HasNull() const {
		return has_null;
	}
	//! All keys as a NATIVE payload, which the caller owns, with columns k1, k2, ...
	od_msg *Write();

	//! The pipeline that the keys come from. A pipeline that needs them depends on it.
	void SetSource(weak_ptr<Pipeline> source);
	shared_ptr<Pipeline> Source();

private:
	//! The rows of ROWS that are keys.
	idx_t SelectKeys(DataChunk &rows, SelectionVector &selection) const;
	idx_t Size(DataChunk &rows) const;

	const idx_t max_bytes;
	atomic<bool> too_many {false};
	atomic<bool> has_null {false};

	//! Guards what follows.
	mutex lock;
	unique_ptr<GroupedAggregateHashTable> seen;
	unique_ptr<ColumnDataCollection> keys;
	idx_t bytes = 0;
	weak_ptr<Pipeline> source;
};

//! Which rows of a remote scan have a partner: those whose COLUMNS (SQL over the scan's columns) are one of KEYS.
struct JoinKeyFilter {
	shared_ptr<JoinKeys> keys;
	vector<string> columns;
	//! How many values the columns have, about; 0: not known.
	idx_t values;

	//! The part of its rows that the scan gives with KEY_COUNT keys.
	double Part(idx_t key_count) const {
		return values > 0 ? MinValue(1.0, double(key_count) / double(values)) : 1;
	}
	//! Looking for nearly every value leaves out next to nothing.
	bool IsUseful(idx_t key_count) const {
		return values == 0 || Part(key_count) < USEFUL_PART;
	}

private:
	//! What is known of VALUES may be wrong by a tenth.
	static constexpr double USEFUL_PART = 0.7;
};

//! Conditions that leave in only rows with a key of FILTERS, which are parameters of the statement. Those of which there are too many, or as
//! many as the columns have values, are left out. What leaves out most comes first, as the server will look in this order.
class JoinKeyConditions {
public:
	//! For EXPLAIN, before there are keys; BEFORE is the number of parameters before theirs.
	static JoinKeyConditions Planned(const vector<JoinKeyFilter> &filters, idx_t before);
	//! The keys, which must be complete, are added to PARAMETERS.
	static JoinKeyConditions Complete(const vector<JoinKeyFilter> &filters, RowParameters &parameters);

	vector<string> conditions;
	//! How many keys are sent.
	idx_t count = 0;
	//! One of the filters has no key at all: no row of the scan has a partner.
	bool nothing = false;

private:
	void Add(const JoinKeyFilter &filter, idx_t parameter);
};

//! Above the side of a join that KEYS come from: EXPRESSIONS are evaluated for each row that passes. SHOWN is for EXPLAIN.
unique_ptr<LogicalOperator> PlanKeyCollector(shared_ptr<JoinKeys> keys, vector<unique_ptr<Expression>> expressions,
                                             string shown, unique_ptr<LogicalOperator> child);
//! Above a scan that uses KEYS, but would not otherwise wait for them.
unique_ptr<LogicalOperator> PlanKeyBarrier(shared_ptr<JoinKeys> keys, unique_ptr<LogicalOperator> child);
//! True if OP is one of these.
bool IsKeyOperator(const LogicalOperator &op);

//! Finds the joins in PLAN whose keys are worth sending to the scans that they are joined with, and has them sent.
void PlanJoinKeys(ClientContext &context, LogicalOperator &plan);

} // namespace openduck
