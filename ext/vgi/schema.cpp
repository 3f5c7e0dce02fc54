#include "vgi/schema.hpp"

#include "vgi/definitions.hpp"
#include "vgi/functions.hpp"
#include "vgi/table.hpp"
#include "vgi/transaction.hpp"

#include "duckdb/catalog/catalog_entry/aggregate_function_catalog_entry.hpp"
#include "duckdb/catalog/catalog_entry/scalar_function_catalog_entry.hpp"
#include "duckdb/catalog/catalog_entry/table_function_catalog_entry.hpp"
#include "duckdb/parser/parsed_data/create_aggregate_function_info.hpp"
#include "duckdb/parser/parsed_data/create_scalar_function_info.hpp"
#include "duckdb/parser/parsed_data/create_schema_info.hpp"
#include "duckdb/parser/parsed_data/create_table_function_info.hpp"

namespace vgi {

VgiSchemaEntry::VgiSchemaEntry(VgiCatalog &catalog, CreateSchemaInfo &info, const od_vgi_schema &told)
    : SchemaCatalogEntry(catalog, info) {
	comment = info.comment;
	// None is a promise, and saves a question.
	auto none = [](const od_vgi_number &number) {
		return number.known && number.value == 0;
	};
	entries[TABLES].known = none(told.estimated.table);
	entries[VIEWS].known = none(told.estimated.view);
	entries[SCALAR_FUNCTIONS].known = none(told.estimated.scalar_function);
	entries[AGGREGATE_FUNCTIONS].known = none(told.estimated.aggregate_function);
	entries[TABLE_FUNCTIONS].known = none(told.estimated.table_function);
	entries[SCALAR_MACROS].known = entries[TABLE_MACROS].known = none(told.estimated.macro);
}

VgiSchemaEntry::~VgiSchemaEntry() = default;

//===--------------------------------------------------------------------===//
// What the worker lists
//===--------------------------------------------------------------------===//
vector<VgiSchemaEntry::Kind> VgiSchemaEntry::KindsOf(CatalogType type) {
	switch (type) {
	case CatalogType::TABLE_ENTRY:
	case CatalogType::VIEW_ENTRY:
		return {TABLES, VIEWS};
	case CatalogType::AGGREGATE_FUNCTION_ENTRY:
		return {AGGREGATE_FUNCTIONS, SCALAR_FUNCTIONS, SCALAR_MACROS};
	case CatalogType::SCALAR_FUNCTION_ENTRY:
	case CatalogType::MACRO_ENTRY:
		return {SCALAR_FUNCTIONS, AGGREGATE_FUNCTIONS, SCALAR_MACROS};
	case CatalogType::TABLE_FUNCTION_ENTRY:
	case CatalogType::TABLE_MACRO_ENTRY:
		return {TABLE_FUNCTIONS, TABLE_MACROS};
	default:
		return {};
	}
}

VgiSchemaEntry::EntryMap &VgiSchemaEntry::Get(ClientContext &context, Kind kind) {
	auto call = VgiTransaction::Get(context, catalog).Call(context);
	lock_guard<mutex> guard(lock);
	auto &slot = entries[kind];
	if (!slot.known) {
		EntryMap found;
		Load(context, call, kind, found);
		slot.map = std::move(found);
		slot.known = true;
	}
	return slot.map;
}

void VgiSchemaEntry::Load(ClientContext &context, const od_vgi_context &call, Kind kind, EntryMap &out) {
	switch (kind) {
	case TABLES:
		LoadTables(context, call, out);
		break;
	case VIEWS:
		LoadViews(call, out);
		break;
	case SCALAR_MACROS:
	case TABLE_MACROS:
		LoadMacros(context, call, kind == TABLE_MACROS, out);
		break;
	default:
		LoadFunctions(context, call, kind, out);
		break;
	}
}

void VgiSchemaEntry::Add(EntryMap &out, unique_ptr<CatalogEntry> entry) {
	auto &slot = out[entry->name];
	if (slot) {
		throw IOException("the VGI worker of \"%s\" lists %s \"%s\".\"%s\" twice", catalog.GetName(),
		                  StringUtil::Lower(CatalogTypeToString(entry->type)), name, entry->name);
	}
	slot = std::move(entry);
}

//! False: the worker does not have the method, and so nothing of the kind.
static bool Known(od_code code, const od_error &err) {
	if (code == OD_E_NOT_IMPLEMENTED) {
		return false;
	}
	ThrowIfFailed(code, err);
	return true;
}

void VgiSchemaEntry::LoadTables(ClientContext &context, const od_vgi_context &call, EntryMap &out) {
	Answer<od_vgi_tables> listed;
	od_error err = {};
	ThrowIfFailed(od_vgi_list_tables(Owner().Remote()->Handle(), &call, name.c_str(), &listed.data, &err), err);
	for (idx_t i = 0; i < listed->count; i++) {
		Add(out, VgiTableEntry::Make(context, *this, listed->items[i], VgiTableEntry::Version()));
	}
}

void VgiSchemaEntry::LoadViews(const od_vgi_context &call, EntryMap &out) {
	Answer<od_vgi_views> listed;
	od_error err = {};
	if (!Known(od_vgi_list_views(Owner().Remote()->Handle(), &call, name.c_str(), &listed.data, &err), err)) {
		return;
	}
	for (idx_t i = 0; i < listed->count; i++) {
		Add(out, MakeView(*this, listed->items[i]));
	}
}

void VgiSchemaEntry::LoadMacros(ClientContext &context, const od_vgi_context &call, bool table, EntryMap &out) {
	Answer<od_vgi_macros> listed;
	od_error err = {};
	if (!Known(od_vgi_list_macros(Owner().Remote()->Handle(), &call, name.c_str(), table, &listed.data, &err), err)) {
		return;
	}
	for (idx_t i = 0; i < listed->count; i++) {
		if (listed->items[i].is_table == table) {
			Add(out, MakeMacro(context, *this, listed->items[i]));
		}
	}
}

//! Functions over rows that DuckDB has no way to call.
static bool IsCallable(const WorkerFunction &worker) {
	auto type = worker.function.type;
	return type == OD_VGI_TABLE_FUNCTION || (type == OD_VGI_TABLE_BUFFERING_FUNCTION && worker.TakesTable());
}

void VgiSchemaEntry::LoadFunctions(ClientContext &context, const od_vgi_context &call, Kind kind, EntryMap &out) {
	bool table = kind == TABLE_FUNCTIONS;
	auto type = kind == SCALAR_FUNCTIONS ? OD_VGI_SCALAR_FUNCTION : OD_VGI_AGGREGATE_FUNCTION;
	auto listed = table ? TableFunctions(call) : make_shared_ptr<Answer<od_vgi_functions>>();
	od_error err = {};
	if (!table &&
	    !Known(od_vgi_list_functions(Owner().Remote()->Handle(), &call, name.c_str(), type, &listed->data, &err),
	           err)) {
		return;
	}
	case_insensitive_tree_t<vector<shared_ptr<WorkerFunction>>> by_name;
	for (idx_t i = 0; i < listed->data.count; i++) {
		auto &function = listed->data.items[i];
		auto worker = make_shared_ptr<WorkerFunction>(context, Owner(), name, listed, function);
		if (table ? IsCallable(*worker) : function.type == type) {
			by_name[Text(function.name)].push_back(std::move(worker));
		}
	}
	for (auto &overloads : by_name) {
		if (table) {
			CreateTableFunctionInfo info(MakeTableFunctions(overloads.first, overloads.second));
			info.schema = name;
			Add(out, make_uniq<TableFunctionCatalogEntry>(catalog, *this, info));
		} else if (kind == SCALAR_FUNCTIONS) {
			CreateScalarFunctionInfo info(MakeScalarFunctions(overloads.first, overloads.second));
			info.schema = name;
			Add(out, make_uniq<ScalarFunctionCatalogEntry>(catalog, *this, info));
		} else {
			CreateAggregateFunctionInfo info(MakeAggregateFunctions(overloads.first, overloads.second));
			info.schema = name;
			Add(out, make_uniq<AggregateFunctionCatalogEntry>(catalog, *this, info));
		}
	}
}

shared_ptr<Answer<od_vgi_functions>> VgiSchemaEntry::TableFunctions(const od_vgi_context &call) {
	if (!functions) {
		auto listed = make_shared_ptr<Answer<od_vgi_functions>>();
		od_error err = {};
		ThrowIfFailed(od_vgi_list_functions(Owner().Remote()->Handle(), &call, name.c_str(), OD_VGI_TABLE_FUNCTION,
		                                    &listed->data, &err),
		              err);
		functions = std::move(listed);
	}
	return functions;
}

vector<const od_vgi_function *> VgiSchemaEntry::Functions(ClientContext &context, const string &function_name) {
	auto call = VgiTransaction::Get(context, catalog).Call(context);
	vector<const od_vgi_function *> result;
	lock_guard<mutex> guard(lock);
	auto listed = TableFunctions(call);
	for (idx_t i = 0; i < listed->data.count; i++) {
		auto &function = listed->data.items[i];
		if (StringUtil::CIEquals(Text(function.name), function_name)) {
			result.push_back(&function);
		}
	}
	return result;
}

//===--------------------------------------------------------------------===//
// Entries
//===--------------------------------------------------------------------===//
optional_ptr<CatalogEntry> VgiSchemaEntry::LookupVersion(ClientContext &context, const EntryLookupInfo &lookup) {
	auto &tables = Get(context, TABLES);
	auto present = tables.find(lookup.GetEntryName());
	if (present == tables.end()) {
		return nullptr;
	}
	auto &table = present->second->Cast<VgiTableEntry>();
	table.RefuseVersionOfBranches(context);
	auto version = VgiTableEntry::VersionOf(lookup.GetAtClause());
	vector<string> key = {name, table.name, version.unit, version.value};
	auto &transaction = VgiTransaction::Get(context, catalog);
	auto known = transaction.FindVersion(key);
	if (known) {
		return known;
	}
	auto found = VgiTableEntry::Ask(context, *this, table.name, version);
	return found ? &transaction.KeepVersion(std::move(key), std::move(found)) : nullptr;
}

optional_ptr<CatalogEntry> VgiSchemaEntry::LookupEntry(CatalogTransaction transaction,
                                                       const EntryLookupInfo &lookup_info) {
	if (lookup_info.GetAtClause() && lookup_info.GetCatalogType() == CatalogType::TABLE_ENTRY) {
		return LookupVersion(transaction.GetContext(), lookup_info);
	}
	for (auto kind : KindsOf(lookup_info.GetCatalogType())) {
		auto &known = Get(transaction.GetContext(), kind);
		auto entry = known.find(lookup_info.GetEntryName());
		if (entry != known.end()) {
			return entry->second.get();
		}
	}
	return nullptr;
}

void VgiSchemaEntry::Scan(ClientContext &context, CatalogType type,
                          const std::function<void(CatalogEntry &)> &callback) {
	for (auto kind : KindsOf(type)) {
		for (auto &entry : Get(context, kind)) {
			callback(*entry.second);
		}
	}
}

void VgiSchemaEntry::Scan(CatalogType type, const std::function<void(CatalogEntry &)> &callback) {
	lock_guard<mutex> guard(lock);
	for (auto kind : KindsOf(type)) {
		for (auto &entry : entries[kind].map) {
			callback(*entry.second);
		}
	}
}

SimilarCatalogEntry VgiSchemaEntry::GetSimilarEntry(CatalogTransaction transaction,
                                                    const EntryLookupInfo &lookup_info) {
	// "Did you mean" also looks here when a local name is wrong: it is answered with what is known.
	SimilarCatalogEntry result;
	Scan(lookup_info.GetCatalogType(), [&](CatalogEntry &entry) {
		auto score = StringUtil::SimilarityRating(entry.name, lookup_info.GetEntryName());
		if (score > result.score) {
			result.score = score;
			result.name = entry.name;
		}
	});
	return result;
}

//===--------------------------------------------------------------------===//
// What a VGI catalog does not do
//===--------------------------------------------------------------------===//
optional_ptr<CatalogEntry> VgiSchemaEntry::CreateIndex(CatalogTransaction, CreateIndexInfo &, TableCatalogEntry &) {
	Owner().Refuse("CREATE INDEX");
}

optional_ptr<CatalogEntry> VgiSchemaEntry::CreateFunction(CatalogTransaction, CreateFunctionInfo &) {
	Owner().Refuse("CREATE FUNCTION");
}

optional_ptr<CatalogEntry> VgiSchemaEntry::CreateTable(CatalogTransaction, BoundCreateTableInfo &) {
	Owner().Refuse("CREATE TABLE");
}

optional_ptr<CatalogEntry> VgiSchemaEntry::CreateView(CatalogTransaction, CreateViewInfo &) {
	Owner().Refuse("CREATE VIEW");
}

optional_ptr<CatalogEntry> VgiSchemaEntry::CreateSequence(CatalogTransaction, CreateSequenceInfo &) {
	Owner().Refuse("CREATE SEQUENCE");
}

optional_ptr<CatalogEntry> VgiSchemaEntry::CreateTableFunction(CatalogTransaction, CreateTableFunctionInfo &) {
	Owner().Refuse("CREATE FUNCTION");
}

optional_ptr<CatalogEntry> VgiSchemaEntry::CreateCopyFunction(CatalogTransaction, CreateCopyFunctionInfo &) {
	Owner().Refuse("CREATE FUNCTION");
}

optional_ptr<CatalogEntry> VgiSchemaEntry::CreatePragmaFunction(CatalogTransaction, CreatePragmaFunctionInfo &) {
	Owner().Refuse("CREATE FUNCTION");
}

optional_ptr<CatalogEntry> VgiSchemaEntry::CreateCollation(CatalogTransaction, CreateCollationInfo &) {
	Owner().Refuse("CREATE COLLATION");
}

optional_ptr<CatalogEntry> VgiSchemaEntry::CreateType(CatalogTransaction, CreateTypeInfo &) {
	Owner().Refuse("CREATE TYPE");
}

void VgiSchemaEntry::DropEntry(ClientContext &, DropInfo &) {
	Owner().Refuse("DROP");
}

void VgiSchemaEntry::Alter(CatalogTransaction, AlterInfo &) {
	Owner().Refuse("ALTER");
}

} // namespace vgi
