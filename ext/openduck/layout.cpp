#include "openduck/layout.hpp"

#include "duckdb/common/string_util.hpp"

namespace openduck {

RemoteLayout::RemoteLayout(const string &bytes) {
	od_error err = {};
	auto code = od_layout_decode(od_slice_of(bytes.data(), bytes.size()), &layout, &err);
	if (code != OD_OK) {
		od_layout_release(&layout);
		od_error_prefix(&err, "the server's layout of the database");
		ThrowError(err);
	}
}

RemoteLayout::~RemoteLayout() {
	od_layout_release(&layout);
}

void RemoteLayout::AttachCompanions(ClientContext &context, const string &alias, const CompanionRights &rights,
                                    Companions &companions) const {
	auto count = OD_LAYOUT_COUNT(layout.companions, od_layout_companion);
	vector<vector<od_companion_option>> options(count);
	vector<od_companion_wish> wishes;
	for (idx_t i = 0; i < count; i++) {
		auto &companion = *OD_LAYOUT_AT(layout.companions, od_layout_companion, i);
		for (idx_t k = 0; k < OD_LAYOUT_COUNT(companion.options, od_layout_option); k++) {
			auto &option = *OD_LAYOUT_AT(companion.options, od_layout_option, k);
			options[i].push_back({option.name ? option.name : "", option.value ? option.value : ""});
		}
		od_companion_wish wish = {};
		wish.alias = companion.alias;
		wish.target = companion.target;
		wish.db_type = companion.type;
		wish.options = options[i].data();
		wish.option_count = options[i].size();
		wish.secret_ref = companion.secret;
		wish.hidden = companion.hidden;
		wish.required = !companion.optional;
		wishes.push_back(wish);
	}
	od_companion_terms terms = {};
	terms.family = "OpenDuck";
	terms.catalog = alias.c_str();
	terms.secrets = rights.secrets;
	terms.read_only = rights.read_only;
	companions.Attach(context, wishes, terms);
}

vector<const od_layout_table *> RemoteLayout::Tables() const {
	vector<const od_layout_table *> result;
	for (idx_t i = 0; i < OD_LAYOUT_COUNT(layout.tables, od_layout_table); i++) {
		auto table = OD_LAYOUT_AT(layout.tables, od_layout_table, i);
		if (OD_LAYOUT_COUNT(table->branches, od_layout_branch) > 0) {
			result.push_back(table);
		}
	}
	return result;
}

bool RemoteLayout::HasName(const string &name) const {
	for (auto table : Tables()) {
		if (StringUtil::CIEquals(od_layout_table_name(&table->name), name)) {
			return true;
		}
	}
	return false;
}

optional_ptr<const od_layout_table> RemoteLayout::FindTable(const string &schema, const string &name) const {
	for (auto table : Tables()) {
		if (StringUtil::CIEquals(od_layout_schema(&table->name), schema) &&
		    StringUtil::CIEquals(od_layout_table_name(&table->name), name)) {
			return table;
		}
	}
	return nullptr;
}

} // namespace openduck
