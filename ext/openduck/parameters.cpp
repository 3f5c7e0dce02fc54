#include "openduck/parameters.hpp"

#include "openduck/write_encode.hpp"

namespace openduck {

RowParameters::~RowParameters() {
	od_msg_unref(message);
}

bool RowParameters::Add(od_msg *payload) {
	auto size = od_msg_len(payload);
	auto fits = bytes + size <= MAX_BYTES;
	if (fits) {
		bytes += size;
		values.push_back(Value::BLOB(const_data_ptr_cast(od_msg_data(payload)), size));
	}
	od_msg_unref(payload);
	return fits;
}

od_slice RowParameters::Slice() {
	if (values.empty()) {
		return {nullptr, 0};
	}
	if (!message) {
		vector<string> names;
		vector<LogicalType> types(values.size(), LogicalType::BLOB);
		vector<idx_t> columns;
		DataChunk row;
		row.Initialize(Allocator::DefaultAllocator(), types, 1);
		for (idx_t i = 0; i < values.size(); i++) {
			names.push_back(to_string(i + 1));
			columns.push_back(i);
			row.SetValue(i, 0, values[i]);
		}
		row.SetCardinality(1);
		NativeWriter writer(names, types);
		writer.Append(row, columns, 0, 1);
		message = writer.Flush();
	}
	return {od_msg_data(message), od_msg_len(message)};
}

} // namespace openduck
