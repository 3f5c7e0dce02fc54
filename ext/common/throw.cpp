//===----------------------------------------------------------------------===//
// common/throw.cpp: an od_error becomes the DuckDB exception of its kind
//===----------------------------------------------------------------------===//
#include "common/throw.hpp"

#include "duckdb/common/exception/binder_exception.hpp"
#include "duckdb/common/exception/catalog_exception.hpp"
#include "duckdb/common/exception/conversion_exception.hpp"
#include "duckdb/common/exception/parser_exception.hpp"
#include "duckdb/common/exception/transaction_exception.hpp"
#include "duckdb/common/string_util.hpp"
#include "utf8proc_wrapper.hpp"

namespace openduck {

//! The exception type that TEXT names at its start ("Out of Range Error: ..."), and the text behind it.
static ExceptionType TypeFromText(const string &text, string &rest) {
	static const ExceptionType TYPES[] = {ExceptionType::OUT_OF_RANGE,
	                                      ExceptionType::CONVERSION,
	                                      ExceptionType::MISMATCH_TYPE,
	                                      ExceptionType::DIVIDE_BY_ZERO,
	                                      ExceptionType::CATALOG,
	                                      ExceptionType::BINDER,
	                                      ExceptionType::CONSTRAINT,
	                                      ExceptionType::PARSER,
	                                      ExceptionType::SYNTAX,
	                                      ExceptionType::INVALID_INPUT,
	                                      ExceptionType::IO,
	                                      ExceptionType::PERMISSION,
	                                      ExceptionType::NOT_IMPLEMENTED,
	                                      ExceptionType::TRANSACTION,
	                                      ExceptionType::DEPENDENCY,
	                                      ExceptionType::INTERRUPT,
	                                      ExceptionType::INVALID_TYPE,
	                                      ExceptionType::SETTINGS,
	                                      ExceptionType::SEQUENCE,
	                                      ExceptionType::HTTP,
	                                      ExceptionType::NETWORK,
	                                      ExceptionType::CONNECTION,
	                                      ExceptionType::OUT_OF_MEMORY,
	                                      ExceptionType::PARAMETER_NOT_RESOLVED,
	                                      ExceptionType::PARAMETER_NOT_ALLOWED};
	for (auto type : TYPES) {
		auto prefix = Exception::ExceptionTypeToString(type) + " Error: ";
		if (StringUtil::StartsWith(text, prefix)) {
			rest = text.substr(prefix.size());
			return type;
		}
	}
	rest = text;
	return ExceptionType::INVALID;
}

//! DuckDB's types that share one kind of the wire; the text tells them apart.
static bool TypeIsOfKind(ExceptionType type, od_kind kind) {
	switch (type) {
	case ExceptionType::OUT_OF_RANGE:
	case ExceptionType::MISMATCH_TYPE:
	case ExceptionType::DIVIDE_BY_ZERO:
		return kind == OD_KIND_CONVERSION;
	case ExceptionType::DEPENDENCY:
	case ExceptionType::SEQUENCE:
		return kind == OD_KIND_CATALOG;
	case ExceptionType::INVALID_INPUT:
	case ExceptionType::INVALID_TYPE:
	case ExceptionType::SETTINGS:
	case ExceptionType::NOT_IMPLEMENTED:
	case ExceptionType::PARAMETER_NOT_RESOLVED:
	case ExceptionType::PARAMETER_NOT_ALLOWED:
		return kind == OD_KIND_BINDER || kind == OD_KIND_INTERNAL;
	case ExceptionType::SYNTAX:
		return kind == OD_KIND_PARSER;
	case ExceptionType::HTTP:
	case ExceptionType::NETWORK:
	case ExceptionType::CONNECTION:
	case ExceptionType::TRANSACTION:
	case ExceptionType::INTERRUPT:
	case ExceptionType::OUT_OF_MEMORY:
		return kind == OD_KIND_IO || kind == OD_KIND_INTERNAL;
	default:
		return false;
	}
}

//! DuckDB's types that the SQLSTATE tells apart; INVALID if it tells no more than the kind.
static ExceptionType TypeFromState(const string &sqlstate) {
	static const unordered_map<string, ExceptionType> TYPES = {
	    {"2BP01", ExceptionType::DEPENDENCY},     {"22003", ExceptionType::OUT_OF_RANGE},
	    {"22012", ExceptionType::DIVIDE_BY_ZERO}, {"22018", ExceptionType::MISMATCH_TYPE},
	    {"22023", ExceptionType::INVALID_INPUT},  {"2200H", ExceptionType::SEQUENCE},
	    {"42804", ExceptionType::INVALID_TYPE}};
	auto entry = TYPES.find(sqlstate);
	return entry == TYPES.end() ? ExceptionType::INVALID : entry->second;
}

string ForeignText(const char *data, idx_t size) {
	string text(data, size);
	if (!Utf8Proc::IsValid(text.data(), text.size())) {
		for (auto &byte : text) {
			byte = uint8_t(byte) < 0x80 ? byte : '?';
		}
	}
	return text;
}

void ThrowCatalogChanged() {
	throw TransactionException("the remote catalog changed; run the statement again");
}

void ThrowError(const od_error &err) {
	if (err.code == OD_E_STALE_CATALOG) {
		ThrowCatalogChanged();
	}
	auto message = ForeignText(err.message, strlen(err.message));
	string text;
	auto named = TypeFromText(message, text);
	if (err.code == OD_E_CANCELLED || string(err.sqlstate) == "57014") {
		throw InterruptException();
	}
	if (StringUtil::StartsWith(err.sqlstate, "0A")) {
		throw NotImplementedException("%s", text);
	}
	if (StringUtil::StartsWith(err.sqlstate, "25") || StringUtil::StartsWith(err.sqlstate, "40")) {
		throw TransactionException("%s", text);
	}
	if (TypeIsOfKind(named, err.kind)) {
		throw Exception(named, text);
	}
	auto told = TypeFromState(err.sqlstate);
	if (told != ExceptionType::INVALID) {
		throw Exception(told, text);
	}
	switch (err.kind) {
	case OD_KIND_CATALOG:
		throw CatalogException("%s", text);
	case OD_KIND_BINDER:
		throw BinderException("%s", text);
	case OD_KIND_CONSTRAINT:
		throw ConstraintException("%s", text);
	case OD_KIND_CONVERSION:
		throw ConversionException("%s", text);
	case OD_KIND_PARSER:
		throw ParserException("%s", text);
	case OD_KIND_PERMISSION:
		throw PermissionException("%s", text);
	case OD_KIND_IO:
		throw IOException("%s", text);
	default:
		throw IOException("%s", StringUtil::StartsWith(message, "INTERNAL") ? message : "INTERNAL: " + message);
	}
}

} // namespace openduck
