//===----------------------------------------------------------------------===//
// openduck/pass_through.hpp: operators of ours that give the rows of their first child as they are
//===----------------------------------------------------------------------===//
#pragma once

#include "common/throw.hpp"

#include "duckdb/planner/operator/logical_extension_operator.hpp"

namespace openduck {

class LogicalPassThrough : public LogicalExtensionOperator {
public:
	explicit LogicalPassThrough(unique_ptr<LogicalOperator> child) {
		if (child->has_estimated_cardinality) {
			SetEstimatedCardinality(child->estimated_cardinality);
		}
		children.push_back(std::move(child));
	}
	string GetExtensionName() const override {
		return "openduck";
	}
	bool SupportSerialization() const override {
		return false;
	}
	vector<ColumnBinding> GetColumnBindings() override {
		return children[0]->GetColumnBindings();
	}
	idx_t EstimateCardinality(ClientContext &context) override {
		return children[0]->EstimateCardinality(context);
	}

protected:
	void ResolveTypes() override {
		types = children[0]->types;
	}
};

} // namespace openduck
