#include "openduck/forward_parameters.hpp"

#include "openduck/write_encode.hpp"

#include "duckdb/common/type_visitor.hpp"
#include "duckdb/parser/expression/parameter_expression.hpp"
#include "duckdb/planner/expression/bound_parameter_expression.hpp"

namespace openduck {

//! VALUE as it travels. The labels of an ENUM and the name of a type may be unknown at the server, which reads a text as
//! whatever the statement wants there.
static Value Plain(const Value &value) {
	auto type = TypeVisitor::VisitReplace(value.type(), [](const LogicalType &part) {
		if (part.id() == LogicalTypeId::ENUM || part.id() == LogicalTypeId::STRING_LITERAL) {
			return LogicalType(LogicalTypeId::VARCHAR);
		}
		return part;
	});
	return type == value.type() ? value : value.DefaultCastAs(type);
}

void TakeParameters(Binder &binder, forward_parameters_t &parameters) {
	auto known = binder.GetParameters();
	for (auto &entry : parameters) {
		if (!known) {
			throw BinderException("the statement has a parameter where none is allowed");
		}
		auto &given = known->GetParameterData();
		auto value = given.find(entry.first);
		if (value != given.end()) {
			entry.second = make_shared_ptr<BoundParameterData>(value->second.GetValue());
			continue;
		}
		auto bound = known->GetParameters().find(entry.first);
		if (bound == known->GetParameters().end()) {
			ParameterExpression expr;
			expr.identifier = entry.first;
			known->BindParameterExpression(expr);
			bound = known->GetParameters().find(entry.first);
		}
		entry.second = bound->second;
	}
}

ParameterPayload::ParameterPayload(const forward_parameters_t &parameters) {
	if (parameters.empty()) {
		return;
	}
	vector<string> names;
	vector<Value> values;
	vector<LogicalType> types;
	vector<idx_t> columns;
	for (auto &entry : parameters) {
		columns.push_back(names.size());
		names.push_back(entry.first);
		values.push_back(Plain(entry.second->GetValue()));
		types.push_back(values.back().type());
	}
	DataChunk row;
	row.Initialize(Allocator::DefaultAllocator(), types, 1);
	for (idx_t i = 0; i < values.size(); i++) {
		row.SetValue(i, 0, values[i]);
	}
	row.SetCardinality(1);
	NativeWriter writer(names, types);
	writer.Append(row, columns, 0, 1);
	message = writer.Flush();
}

ParameterPayload::~ParameterPayload() {
	od_msg_unref(message);
}

od_slice ParameterPayload::Bytes() const {
	return message ? od_slice {od_msg_data(message), od_msg_len(message)} : od_slice {nullptr, 0};
}

} // namespace openduck
