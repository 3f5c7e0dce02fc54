#include "vgi/schema.hpp"

#include "vgi/table.hpp"
#include "vgi/transaction.hpp"

#include "duckdb/parser/parsed_data/create_schema_info.hpp"

namespace vgi {

VgiSchemaEntry::VgiSchemaEntry(VgiCatalog &catalog, CreateSchemaInfo &info) : SchemaCatalogEntry(catalog, info) {
	comment = info.comment;
}

VgiSchemaEntry::~VgiSchemaEntry() = default;

VgiSchemaEntry::TableMap &VgiSchemaEntry::Tables(ClientContext &context) {
	auto call = VgiTransaction::Get(context, catalog).Call(context);
	lock_guard<mutex> guard(lock);
	if (tables_known) {
		return tables;
	}
	Answer<od_vgi_tables> listed;
	od_error err = {};
	ThrowIfFailed(od_vgi_list_tables(Owner().Remote()->Handle(), &call, name.c_str(), &listed.data, &err), err);
	TableMap found;
	for (idx_t i = 0; i < listed->count; i++) {
		auto table = VgiTableEntry::Make(context, *this, listed->items[i]);
		auto &slot = found[table->name];
		if (slot) {
			throw IOException("the VGI worker of \"%s\" lists table \"%s\".\"%s\" twice", catalog.GetName(), name,
			                  table->name);
		}
		slot = std::move(table);
	}
	tables = std::move(found);
	tables_known = true;
	return tables;
}

vector<const od_vgi_function *> VgiSchemaEntry::Functions(ClientContext &context, const string &function_name) {
	auto call = VgiTransaction::Get(context, catalog).Call(context);
	vector<const od_vgi_function *> result;
	lock_guard<mutex> guard(lock);
	if (!functions) {
		auto listed = make_uniq<Answer<od_vgi_functions>>();
		od_error err = {};
		ThrowIfFailed(od_vgi_list_functions(Owner().Remote()->Handle(), &call, name.c_str(), OD_VGI_TABLE_FUNCTION,
		                                    &listed->data, &err),
		              err);
		functions = std::move(listed);
	}
	for (idx_t i = 0; i < functions->data.count; i++) {
		auto &function = functions->data.items[i];
		if (StringUtil::CIEquals(Text(function.name), function_name)) {
			result.push_back(&function);
		}
	}
	return result;
}

optional_ptr<CatalogEntry> VgiSchemaEntry::LookupEntry(CatalogTransaction transaction,
                                                       const EntryLookupInfo &lookup_info) {
	if (lookup_info.GetCatalogType() != CatalogType::TABLE_ENTRY &&
	    lookup_info.GetCatalogType() != CatalogType::VIEW_ENTRY) {
		return nullptr;
	}
	auto &known = Tables(transaction.GetContext());
	auto entry = known.find(lookup_info.GetEntryName());
	return entry == known.end() ? nullptr : entry->second.get();
}

void VgiSchemaEntry::Scan(ClientContext &context, CatalogType type,
                          const std::function<void(CatalogEntry &)> &callback) {
	if (type != CatalogType::TABLE_ENTRY && type != CatalogType::VIEW_ENTRY) {
		return;
	}
	for (auto &entry : Tables(context)) {
		callback(*entry.second);
	}
}

void VgiSchemaEntry::Scan(CatalogType type, const std::function<void(CatalogEntry &)> &callback) {
	if (type != CatalogType::TABLE_ENTRY && type != CatalogType::VIEW_ENTRY) {
		return;
	}
	lock_guard<mutex> guard(lock);
	for (auto &entry : tables) {
		callback(*entry.second);
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
