#include "openduck/schema.hpp"

#include "common/event.hpp"
#include "openduck/branches.hpp"
#include "openduck/catalog.hpp"
#include "openduck/define.hpp"
#include "openduck/objects.hpp"
#include "openduck/transaction.hpp"
#include "openduck/view.hpp"

#include "duckdb/catalog/catalog_entry/type_catalog_entry.hpp"
#include "duckdb/parser/keyword_helper.hpp"
#include "duckdb/parser/parsed_data/alter_info.hpp"
#include "duckdb/parser/parsed_data/create_schema_info.hpp"
#include "duckdb/parser/parsed_data/create_table_info.hpp"
#include "duckdb/parser/parsed_data/create_type_info.hpp"
#include "duckdb/parser/parsed_data/create_view_info.hpp"
#include "duckdb/parser/parsed_data/drop_info.hpp"
#include "duckdb/planner/parsed_data/bound_create_table_info.hpp"

namespace openduck {

OpenDuckSchemaEntry::OpenDuckSchemaEntry(CatalogSnapshot &snapshot, CreateSchemaInfo &info)
    : SchemaCatalogEntry(snapshot.catalog, info), snapshot(snapshot) {
}

//! True if nothing that ENTRY tells is lost by NEXT.
static bool Supersedes(CatalogEntry &next, CatalogEntry &entry) {
	if (next.type != entry.type) {
		return true;
	}
	if (entry.type == CatalogType::VIEW_ENTRY) {
		return next.Cast<OpenDuckViewEntry>().described || !entry.Cast<OpenDuckViewEntry>().described;
	}
	return !entry.Cast<OpenDuckTableEntry>().full;
}

void OpenDuckSchemaEntry::Add(unique_ptr<CatalogEntry> entry) {
	lock_guard<mutex> guard(lock);
	auto &slot = relations[entry->name];
	if (slot) {
		if (!Supersedes(*entry, *slot)) {
			return;
		}
		entry->oid = slot->oid; // lists of one statement are joined by it
		superseded.push_back(std::move(slot));
	}
	slot = std::move(entry);
}

optional_ptr<CatalogEntry> OpenDuckSchemaEntry::Find(const string &name) {
	lock_guard<mutex> guard(lock);
	auto entry = relations.find(name);
	return entry == relations.end() ? nullptr : entry->second.get();
}

vector<reference<CatalogEntry>> OpenDuckSchemaEntry::Known() {
	vector<reference<CatalogEntry>> result;
	lock_guard<mutex> guard(lock);
	for (auto &entry : relations) {
		result.push_back(*entry.second);
	}
	return result;
}

//! True if ENTRY tells all that a reader needs. Who looks for a view as such (DROP, ALTER, COMMENT) does not read it.
static bool Usable(CatalogEntry &entry, CatalogType wanted) {
	return entry.type != CatalogType::VIEW_ENTRY || wanted == CatalogType::VIEW_ENTRY ||
	       entry.Cast<OpenDuckViewEntry>().described;
}

//! One relation, as the server describes it now; null if it is not there. Asks the server as long as that is needed.
static optional_ptr<CatalogEntry> FetchRelation(ClientContext &context, OpenDuckTransaction &transaction,
                                                CatalogSnapshot &start, const string &schema_name, const string &name,
                                                CatalogType wanted) {
	auto &catalog = transaction.catalog;
	auto txn = transaction.Server(context, ServerUse::STATEMENT);
	reference<CatalogSnapshot> snapshot(start);
	auto find = [&]() -> optional_ptr<CatalogEntry> {
		auto schema = snapshot.get().FindSchema(schema_name);
		return schema ? schema->Find(name) : nullptr;
	};
	auto absorb = [&](LoadedCatalog loaded) {
		snapshot = *transaction.Absorb(context, snapshot, loaded);
	};
	if (snapshot.get().small && !snapshot.get().Complete()) {
		absorb(CatalogLoader::LoadAll(context, catalog.GetRemote(), txn, OpenDuckCatalog::SMALL_COLUMN_COUNT));
	}
	auto entry = find();
	if (entry && Usable(*entry, wanted)) {
		return entry;
	}
	if (!entry && snapshot.get().Complete()) {
		return nullptr;
	}
	ErrorData problem;
	try {
		absorb(CatalogLoader::LoadRelation(context, catalog.GetRemote(), txn, schema_name, name));
		entry = find();
		if (entry && Usable(*entry, wanted)) {
			return entry;
		}
	} catch (std::exception &ex) {
		problem = ErrorData(ex);
		if (problem.Type() != ExceptionType::CATALOG && problem.Type() != ExceptionType::BINDER) {
			throw;
		}
		// Without the place in our question that the server points at.
		auto &text = problem.RawMessage();
		problem = ErrorData(problem.Type(), text.substr(0, text.find("\n\nLINE ")));
	}
	// It does not exist, or it is a view that no longer works; the list tells.
	if (!snapshot.get().Complete()) {
		absorb(CatalogLoader::LoadAll(context, catalog.GetRemote(), txn, OpenDuckCatalog::SMALL_COLUMN_COUNT));
	}
	entry = find();
	if (entry && entry->type == CatalogType::VIEW_ENTRY && problem.HasError()) {
		entry->Cast<OpenDuckViewEntry>().SetProblem(problem);
	}
	return entry;
}

optional_ptr<CatalogEntry> OpenDuckSchemaEntry::FindType(ClientContext &context, const string &type_name) {
	// With USE each type is looked up here first, also DuckDB's own.
	EntryLookupInfo lookup(CatalogType::TYPE_ENTRY, type_name);
	if (Catalog::GetSystemCatalog(context).GetEntry(context, DEFAULT_SCHEMA, lookup, OnEntryNotFound::RETURN_NULL)) {
		return nullptr;
	}
	auto &transaction = OpenDuckTransaction::Get(context, catalog);
	transaction.Touch();
	{
		lock_guard<mutex> guard(lock);
		auto known = types.find(type_name);
		if (known != types.end()) {
			return known->second.get();
		}
	}
	CreateTypeInfo info;
	info.name = type_name;
	uint64_t version = 0;
	try {
		auto type = KeywordHelper::WriteQuoted(name, '"') + "." + KeywordHelper::WriteQuoted(type_name, '"');
		auto columns = transaction.catalog.GetRemote().Describe(
		    context, transaction.Server(context, ServerUse::STATEMENT), "SELECT CAST(NULL AS " + type + ")", &version);
		if (columns.size() != 1) {
			return nullptr;
		}
		info.type = columns[0].type;
	} catch (CatalogException &) {
		return nullptr;
	}
	auto entry = make_uniq<TypeCatalogEntry>(catalog, *this, info);
	lock_guard<mutex> guard(lock);
	if (types.find(type_name) != types.end() || version != snapshot.version) {
		// Another thread was faster, or it is good for this statement only.
		superseded.push_back(std::move(entry));
		return superseded.back().get();
	}
	return (types[type_name] = std::move(entry)).get();
}

optional_ptr<CatalogEntry> OpenDuckSchemaEntry::LookupEntry(CatalogTransaction transaction,
                                                            const EntryLookupInfo &lookup_info) {
	auto type = lookup_info.GetCatalogType();
	if (type == CatalogType::TYPE_ENTRY) {
		return FindType(transaction.GetContext(), lookup_info.GetEntryName());
	}
	if (type != CatalogType::TABLE_ENTRY && type != CatalogType::VIEW_ENTRY) {
		return nullptr;
	}
	auto name = lookup_info.GetEntryName();
	bool rows_of_view = !name.empty() && name[0] == OpenDuckViewEntry::HIDDEN_PREFIX;
	if (rows_of_view) {
		name = name.substr(1);
	}
	auto &context = transaction.GetContext();
	auto &remote_transaction = OpenDuckTransaction::Get(context, catalog);
	remote_transaction.Touch();
	auto table = rows_of_view ? nullptr : Laid(name);
	if (table) {
		return FindBranched(context, remote_transaction, *table);
	}
	auto entry = FindOwn(context, remote_transaction, type, name);
	if (!entry || !rows_of_view) {
		return entry;
	}
	if (entry->type == CatalogType::VIEW_ENTRY) {
		return &entry->Cast<OpenDuckViewEntry>().Rows();
	}
	// A branch of a table of branches is read under the hidden name, too.
	return snapshot.catalog.Layout() ? entry : nullptr;
}

//===--------------------------------------------------------------------===//
// Tables of branches
//===--------------------------------------------------------------------===//
optional_ptr<const od_layout_table> OpenDuckSchemaEntry::Laid(const string &table) const {
	auto layout = snapshot.catalog.Layout();
	return layout ? layout->FindTable(name, table) : nullptr;
}

optional_ptr<CatalogEntry> OpenDuckSchemaEntry::FindOwn(ClientContext &context, OpenDuckTransaction &transaction,
                                                        CatalogType wanted, const string &relation) {
	auto entry = Find(relation);
	return entry && Usable(*entry, wanted) ? entry
	                                       : FetchRelation(context, transaction, snapshot, name, relation, wanted);
}

//! ENTRY as a table: of a view, its rows.
static OpenDuckTableEntry &AsTable(CatalogEntry &entry) {
	return entry.type == CatalogType::VIEW_ENTRY ? entry.Cast<OpenDuckViewEntry>().Rows()
	                                             : entry.Cast<OpenDuckTableEntry>();
}

optional_ptr<CatalogEntry> OpenDuckSchemaEntry::FindBranched(ClientContext &context, OpenDuckTransaction &transaction,
                                                             const od_layout_table &table) {
	string table_name = od_layout_table_name(&table.name);
	{
		lock_guard<mutex> guard(lock);
		auto known = branched.find(table_name);
		if (known != branched.end()) {
			return known->second.get();
		}
	}
	// The columns are those of the database's table of its name, else of its first branch that is of the database.
	auto source = FindOwn(context, transaction, CatalogType::TABLE_ENTRY, table_name);
	for (idx_t i = 0; !source && i < OD_LAYOUT_COUNT(table.branches, od_layout_branch); i++) {
		auto &from = OD_LAYOUT_AT(table.branches, od_layout_branch, i)->from;
		if (from.count == 1 || from.count == 2) {
			auto schema = snapshot.FindSchema(od_layout_schema(&from));
			source = schema
			             ? schema->FindOwn(context, transaction, CatalogType::TABLE_ENTRY, od_layout_table_name(&from))
			             : nullptr;
		}
	}
	if (!source) {
		throw BinderException(
		    "table \"%s\".\"%s\" of database \"%s\" is read from branches, and the server's database has "
		    "no table that tells its columns",
		    name, table_name, catalog.GetName());
	}
	auto &own = AsTable(*source);
	// It may be of a newer snapshot than this.
	auto schema = own.snapshot.FindSchema(name);
	if (!schema) {
		return nullptr;
	}
	auto entry = OpenDuckTableEntry::OfBranches(*schema, table, own);
	lock_guard<mutex> guard(schema->lock);
	auto &slot = schema->branched[table_name];
	if (!slot) {
		slot = std::move(entry);
	}
	return slot.get();
}

void OpenDuckSchemaEntry::Scan(ClientContext &context, CatalogType type,
                               const std::function<void(CatalogEntry &)> &callback) {
	if (type != CatalogType::TABLE_ENTRY && type != CatalogType::VIEW_ENTRY) {
		return ScanObjects(context, type, callback);
	}
	reference<OpenDuckSchemaEntry> schema(*this);
	if (!snapshot.Complete()) {
		auto &transaction = OpenDuckTransaction::Get(context, catalog);
		auto txn = transaction.Server(context, ServerUse::STATEMENT);
		auto loaded =
		    CatalogLoader::LoadAll(context, transaction.catalog.GetRemote(), txn, OpenDuckCatalog::SMALL_COLUMN_COUNT);
		auto found = transaction.Absorb(context, snapshot, loaded)->FindSchema(name);
		if (!found) {
			return;
		}
		schema = *found;
	}
	for (auto &entry : schema.get().Known()) {
		if (!Laid(entry.get().name)) {
			callback(entry.get());
		}
	}
	auto layout = snapshot.catalog.Layout();
	if (!layout) {
		return;
	}
	auto &transaction = OpenDuckTransaction::Get(context, catalog);
	for (auto table : layout->Tables()) {
		if (!StringUtil::CIEquals(od_layout_schema(&table->name), name)) {
			continue;
		}
		optional_ptr<CatalogEntry> entry;
		try {
			entry = schema.get().FindBranched(context, transaction, *table);
		} catch (BinderException &ex) {
			LogEvent(DatabaseInstance::GetDatabase(context), &context, "vgi.table_branches.skip_failed_table",
			         {{"catalog", catalog.GetName()}, {"schema", name}, {"error", ErrorData(ex).RawMessage()}});
		}
		if (entry) {
			callback(*entry);
		}
	}
}

void OpenDuckSchemaEntry::ScanObjects(ClientContext &context, CatalogType type,
                                      const std::function<void(CatalogEntry &)> &callback) {
	auto &transaction = OpenDuckTransaction::Get(context, catalog);
	switch (type) {
	case CatalogType::SEQUENCE_ENTRY:
	case CatalogType::INDEX_ENTRY:
	case CatalogType::MACRO_ENTRY:
	case CatalogType::TABLE_MACRO_ENTRY:
		return transaction.Objects(context)->Scan(name, type, callback);
	case CatalogType::SCALAR_FUNCTION_ENTRY:
		return transaction.Objects(context)->Scan(name, CatalogType::MACRO_ENTRY, callback);
	case CatalogType::TABLE_FUNCTION_ENTRY:
		return transaction.Objects(context)->Scan(name, CatalogType::TABLE_MACRO_ENTRY, callback);
	case CatalogType::TYPE_ENTRY:
		for (auto &type_name : transaction.Objects(context)->TypeNames(name)) {
			auto entry = FindType(context, type_name);
			if (entry) {
				callback(*entry);
			}
		}
		return;
	default:
		return;
	}
}

void OpenDuckSchemaEntry::Scan(CatalogType type, const std::function<void(CatalogEntry &)> &callback) {
	if (type != CatalogType::TABLE_ENTRY && type != CatalogType::VIEW_ENTRY) {
		return;
	}
	for (auto &entry : Known()) {
		callback(entry.get());
	}
}

SimilarCatalogEntry OpenDuckSchemaEntry::GetSimilarEntry(CatalogTransaction transaction,
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

static OpenDuckCatalog &Ours(Catalog &catalog) {
	return catalog.Cast<OpenDuckCatalog>();
}

bool OpenDuckSchemaEntry::RefuseCreate(CatalogTransaction transaction, const CreateInfo &info, const string &name,
                                       const string &what) {
	EntryLookupInfo lookup(CatalogType::TABLE_ENTRY, name);
	auto entry = LookupEntry(transaction, lookup);
	if (entry && info.on_conflict == OnCreateConflict::IGNORE_ON_CONFLICT && entry->type == info.type) {
		return false;
	}
	if (entry && (info.on_conflict == OnCreateConflict::ERROR_ON_CONFLICT || entry->type != info.type)) {
		if (entry->type != info.type) {
			throw CatalogException("Existing object %s is of type %s, trying to replace with type %s", name,
			                       CatalogTypeToString(entry->type), CatalogTypeToString(info.type));
		}
		throw CatalogException::EntryAlreadyExists(info.type, name);
	}
	Ours(catalog).RefuseWrite(what);
}

optional_ptr<CatalogEntry> OpenDuckSchemaEntry::CreateTable(CatalogTransaction transaction,
                                                            BoundCreateTableInfo &info) {
	auto &base = info.Base();
	RefuseCreate(transaction, base, base.table, "CREATE TABLE");
	return nullptr;
}

optional_ptr<CatalogEntry> OpenDuckSchemaEntry::CreateView(CatalogTransaction transaction, CreateViewInfo &info) {
	DefineAtServer(transaction.GetContext(), Ours(catalog), info);
	return nullptr;
}

optional_ptr<CatalogEntry> OpenDuckSchemaEntry::CreateIndex(CatalogTransaction transaction, CreateIndexInfo &info,
                                                            TableCatalogEntry &table) {
	Ours(catalog).RefuseWrite("CREATE INDEX");
}

optional_ptr<CatalogEntry> OpenDuckSchemaEntry::CreateFunction(CatalogTransaction transaction,
                                                               CreateFunctionInfo &info) {
	Ours(catalog).RefuseWrite("CREATE FUNCTION");
}

optional_ptr<CatalogEntry> OpenDuckSchemaEntry::CreateSequence(CatalogTransaction transaction,
                                                               CreateSequenceInfo &info) {
	Ours(catalog).RefuseWrite("CREATE SEQUENCE");
}

optional_ptr<CatalogEntry> OpenDuckSchemaEntry::CreateTableFunction(CatalogTransaction transaction,
                                                                    CreateTableFunctionInfo &info) {
	Ours(catalog).RefuseWrite("CREATE TABLE FUNCTION");
}

optional_ptr<CatalogEntry> OpenDuckSchemaEntry::CreateCopyFunction(CatalogTransaction transaction,
                                                                   CreateCopyFunctionInfo &info) {
	Ours(catalog).RefuseWrite("CREATE COPY FUNCTION");
}

optional_ptr<CatalogEntry> OpenDuckSchemaEntry::CreatePragmaFunction(CatalogTransaction transaction,
                                                                     CreatePragmaFunctionInfo &info) {
	Ours(catalog).RefuseWrite("CREATE PRAGMA FUNCTION");
}

optional_ptr<CatalogEntry> OpenDuckSchemaEntry::CreateCollation(CatalogTransaction transaction,
                                                                CreateCollationInfo &info) {
	Ours(catalog).RefuseWrite("CREATE COLLATION");
}

optional_ptr<CatalogEntry> OpenDuckSchemaEntry::CreateType(CatalogTransaction transaction, CreateTypeInfo &info) {
	Ours(catalog).RefuseWrite("CREATE TYPE");
}

void OpenDuckSchemaEntry::DropEntry(ClientContext &context, DropInfo &info) {
	EntryLookupInfo lookup(CatalogType::TABLE_ENTRY, info.name);
	auto entry = LookupEntry(GetCatalogTransaction(context), lookup);
	if (!entry) {
		if (info.if_not_found == OnEntryNotFound::RETURN_NULL) {
			return;
		}
		throw CatalogException::MissingEntry(info.type, info.name, string());
	}
	if (entry->type != info.type) {
		throw CatalogException("Existing object %s is of type %s, trying to replace with type %s", info.name,
		                       CatalogTypeToString(entry->type), CatalogTypeToString(info.type));
	}
	if (HasBranches(*entry)) {
		RequireNoBranches(entry->Cast<OpenDuckTableEntry>());
	}
	Ours(catalog).RefuseDrop(CatalogTypeToString(info.type));
}

void OpenDuckSchemaEntry::Alter(CatalogTransaction transaction, AlterInfo &info) {
	Ours(catalog).RefuseWrite("ALTER");
}

} // namespace openduck
