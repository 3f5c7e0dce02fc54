//===----------------------------------------------------------------------===//
// openduck/write_merge.hpp: MERGE INTO whose actions are decided here
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/write.hpp"

#include "duckdb/execution/operator/persistent/physical_merge_into.hpp"

namespace openduck {

//! Runs the actions' statements when the rows of all have arrived: first what deletes, then what updates, then what
//! inserts, so that a row may take the key of one that goes.
class MergeSequence : public RemoteWriteSequence {
public:
	//! Another execution begins, of COUNT statements.
	void Begin(idx_t count);
	vector<reference<RemoteWriteGlobalState>> Arrived(const RemoteWrite &write, RemoteWriteGlobalState &state) override;

private:
	idx_t expected = 0;
	vector<pair<string, reference<RemoteWriteGlobalState>>> arrived;
};

//! DuckDB's operator decides which action each row gets; the actions are remote writes.
class RemoteMerge : public PhysicalMergeInto {
public:
	typedef map<MergeActionCondition, vector<unique_ptr<MergeIntoOperator>>> actions_t;

	RemoteMerge(PhysicalPlan &plan, vector<LogicalType> types, OpenDuckCatalog &catalog, actions_t actions,
	            idx_t row_id_index, optional_idx source_marker, bool returning, shared_ptr<MergeSequence> sequence);

	OpenDuckCatalog &catalog;

	string GetName() const override;
	unique_ptr<GlobalSinkState> GetGlobalSinkState(ClientContext &context) const override;

private:
	shared_ptr<MergeSequence> sequence;
	idx_t write_count = 0;
};

} // namespace openduck
