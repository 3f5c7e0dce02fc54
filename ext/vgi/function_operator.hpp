//===----------------------------------------------------------------------===//
// vgi/function_operator.hpp: functions of a worker's that have operators of ours in a plan
//===----------------------------------------------------------------------===//
#pragma once

#include "common/plan_copies.hpp"
#include "vgi/functions.hpp"

#include "duckdb/planner/operator/logical_extension_operator.hpp"

namespace vgi {

//! In the place of the LogicalGet of such a function: its expressions are over its child's columns, the first of them make what goes in.
class LogicalWorkerFunction : public LogicalExtensionOperator {
public:
	LogicalWorkerFunction(LogicalGet &get, vector<LogicalType> given_p)
	    : table_index(get.table_index), given(std::move(given_p)), bind(std::move(get.bind_data)) {
		if (get.has_estimated_cardinality) {
			SetEstimatedCardinality(get.estimated_cardinality);
		}
	}
	vector<ColumnBinding> GetColumnBindings() override {
		return GenerateColumnBindings(table_index, given.size());
	}
	vector<idx_t> GetTableIndex() const override {
		return {table_index};
	}
	string GetExtensionName() const override {
		return "vgi";
	}
	bool SupportSerialization() const override {
		return false;
	}
	void Serialize(Serializer &) const override {
		openduck::RefuseToWrite();
	}

protected:
	void ResolveTypes() override {
		types = given;
	}

	const idx_t table_index;
	const vector<LogicalType> given; //!< what the function makes
	unique_ptr<FunctionData> bind;
};

} // namespace vgi
