#include "openduck/branches.hpp"

#include "common/row_list.hpp"
#include "openduck/catalog.hpp"
#include "openduck/transaction.hpp"
#include "openduck/view.hpp"

#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/database_manager.hpp"
#include "duckdb/main/extension/extension_loader.hpp"

namespace openduck {

//===--------------------------------------------------------------------===//
// The conditions
//===--------------------------------------------------------------------===//
static string Take(od_buf &buf, od_code code, const od_error &err) {
	string result(reinterpret_cast<const char *>(buf.data), buf.len);
	od_buf_release(&buf);
	ThrowIfFailed(code, err);
	return result;
}

//! The value that divides the rows, as SQL writes it; empty if nothing does.
static string AskSplit(ClientContext &context, OpenDuckTableEntry &entry, const od_layout_table &table) {
	if (!table.split) {
		return string();
	}
	od_error err = {};
	od_buf buf = {};
	auto code = od_layout_split_query(&table, &buf, &err);
	auto sql = Take(buf, code, err);
	auto &transaction = OpenDuckTransaction::Get(context, entry.ParentCatalog());
	auto txn = transaction.Server(context, ServerUse::STATEMENT);
	auto rows = transaction.catalog.GetRemote().Query(context, txn, sql, {LogicalType::VARCHAR}, nullptr);
	auto value = rows->Count() == 1 ? rows->GetRows().GetValue(0, 0) : Value();
	if (value.IsNull()) {
		throw BinderException("the split of table \"%s\".\"%s\" of database \"%s\" is NULL, which divides nothing",
		                      entry.schema.name, entry.name, entry.ParentCatalog().GetName());
	}
	return StringValue::Get(value);
}

TableFunction BindBranches(ClientContext &context, OpenDuckTableEntry &entry, unique_ptr<FunctionData> &bind_data) {
	auto &table = *entry.Branches();
	auto split = AskSplit(context, entry, table);
	vector<string> conditions;
	for (idx_t i = 0; i < OD_LAYOUT_COUNT(table.branches, od_layout_branch); i++) {
		od_error err = {};
		od_buf buf = {};
		auto code =
		    od_layout_condition(OD_LAYOUT_AT(table.branches, od_layout_branch, i)->where, split.c_str(), &buf, &err);
		conditions.push_back(Take(buf, code, err));
	}
	bind_data = make_uniq<RemoteBranchesBindData>(entry, std::move(conditions));
	return BranchesFunction("openduck_branches", entry);
}

//===--------------------------------------------------------------------===//
// The place
//===--------------------------------------------------------------------===//
RemoteBranchesBindData::RemoteBranchesBindData(OpenDuckTableEntry &entry, vector<string> conditions_p)
    : BranchesBindData(entry, "OpenDuck"), conditions(std::move(conditions_p)) {
	for (auto &column : entry.GetColumns().Logical()) {
		columns.push_back({column.Name(), column.Type()});
	}
}

const od_layout_branch &RemoteBranchesBindData::Branch(idx_t i) const {
	return *OD_LAYOUT_AT(Entry().Branches()->branches, od_layout_branch, i);
}

static vector<string> Texts(const od_buf &list) {
	vector<string> result;
	for (idx_t i = 0; i < OD_LAYOUT_COUNT(list, char *); i++) {
		result.emplace_back(*OD_LAYOUT_AT(list, char *, i));
	}
	return result;
}

vector<string> RemoteBranchesBindData::RequiredExtensions() const {
	return Texts(Entry().Branches()->extensions);
}

idx_t RemoteBranchesBindData::Count() const {
	return conditions.size();
}

bool RemoteBranchesBindData::Filter(idx_t i, string &out) const {
	out = conditions[i];
	return !out.empty();
}

BoundArm RemoteBranchesBindData::BindArm(ClientContext &context, Binder &binder, idx_t i) const {
	auto &branch = Branch(i);
	auto &from = branch.from;
	if (branch.format) {
		return BindFormatArm(context, binder, shown, branch.format, Texts(branch.locations), {});
	}
	if (from.count == OD_LAYOUT_PARTS) {
		return BindTableArm(context, binder, shown, from.parts[0], from.parts[1], from.parts[2],
		                    {"vgi", OpenDuckCatalog::TYPE});
	}
	if (from.count == 0) {
		throw BinderException("%s has a branch that names nothing to read", shown.Quoted());
	}
	auto &catalog = table.ParentCatalog();
	string schema = od_layout_schema(&from), name = od_layout_table_name(&from);
	// The database's own, whatever the layout has of that name.
	auto own = OpenDuckViewEntry::HIDDEN_PREFIX + name;
	EntryLookupInfo lookup(CatalogType::TABLE_ENTRY, own);
	if (!catalog.GetEntry(context, schema, lookup, OnEntryNotFound::RETURN_NULL)) {
		throw BinderException("%s has a branch of table \"%s\".\"%s\", which the server's database has not",
		                      shown.Quoted(), schema, name);
	}
	return BindNamedArm(binder, catalog.GetName(), schema, own);
}

unique_ptr<FunctionData> RemoteBranchesBindData::Copy() const {
	return make_uniq<RemoteBranchesBindData>(Entry(), conditions);
}

bool RemoteBranchesBindData::Equals(const FunctionData &other_p) const {
	auto &other = other_p.Cast<RemoteBranchesBindData>();
	return RefersToSameObject(table, other.table) && conditions == other.conditions;
}

//===--------------------------------------------------------------------===//
// What is not done to it
//===--------------------------------------------------------------------===//
bool HasBranches(CatalogEntry &entry) {
	return entry.type == CatalogType::TABLE_ENTRY && OpenDuckCatalog::Is(entry.ParentCatalog()) &&
	       entry.Cast<OpenDuckTableEntry>().Branches();
}

string BranchesRefusal(const string &name, const string &database) {
	return StringUtil::Format(
	    "table \"%s\" of database \"%s\" is read from several branches, and is neither written to nor "
	    "changed as a whole: name a branch's own table, or CALL openduck_query('%s', 'SQL')",
	    name, database, database);
}

void RequireNoBranches(const OpenDuckTableEntry &table) {
	if (table.Branches()) {
		throw BinderException(BranchesRefusal(table.name, table.catalog.GetName()));
	}
}

//===--------------------------------------------------------------------===//
// openduck_table_branches()
//===--------------------------------------------------------------------===//
static string SourceOf(const od_layout_branch &branch) {
	if (branch.format) {
		return string(branch.format) + ": " + StringUtil::Join(Texts(branch.locations), ", ");
	}
	vector<string> parts(branch.from.parts, branch.from.parts + branch.from.count);
	if (parts.size() == 1) {
		parts.insert(parts.begin(), od_layout_schema(&branch.from));
	}
	return StringUtil::Join(parts, ".");
}

static Value OrNull(const char *text) {
	return text ? Value(text) : Value(LogicalType::VARCHAR);
}

static vector<vector<Value>> ListBranches(ClientContext &context) {
	vector<vector<Value>> rows;
	for (auto &database : DatabaseManager::Get(context).GetDatabases(context)) {
		auto &catalog = database->GetCatalog();
		if (!OpenDuckCatalog::Is(catalog) || !catalog.Cast<OpenDuckCatalog>().Layout()) {
			continue;
		}
		for (auto table : catalog.Cast<OpenDuckCatalog>().Layout()->Tables()) {
			vector<Value> extensions;
			for (auto &extension : Texts(table->extensions)) {
				extensions.emplace_back(extension);
			}
			for (idx_t i = 0; i < OD_LAYOUT_COUNT(table->branches, od_layout_branch); i++) {
				auto &branch = *OD_LAYOUT_AT(table->branches, od_layout_branch, i);
				rows.push_back({Value(catalog.GetName()), Value(od_layout_schema(&table->name)),
				                Value(od_layout_table_name(&table->name)), Value::BIGINT(int64_t(i)),
				                Value(SourceOf(branch)), OrNull(branch.where), OrNull(table->split),
				                Value::LIST(LogicalType::VARCHAR, extensions)});
			}
		}
	}
	return rows;
}

void RegisterBranchList(ExtensionLoader &loader) {
	loader.RegisterFunction(RowListFunction("openduck_table_branches",
	                                        {"catalog_name", "schema_name", "table_name", "branch_index", "source",
	                                         "branch_filter", "split", "table_required_extensions"},
	                                        {LogicalType::VARCHAR, LogicalType::VARCHAR, LogicalType::VARCHAR,
	                                         LogicalType::BIGINT, LogicalType::VARCHAR, LogicalType::VARCHAR,
	                                         LogicalType::VARCHAR, LogicalType::LIST(LogicalType::VARCHAR)},
	                                        ListBranches));
}

} // namespace openduck
