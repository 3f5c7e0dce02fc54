#include "openduck/macro_text.hpp"

#include "openduck/remote_type.hpp"

#include "duckdb/parser/keyword_helper.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/statement/create_statement.hpp"

namespace openduck {

static bool IsExpression(const string &text) {
	try {
		return Parser::ParseExpressionList(text).size() == 1;
	} catch (std::exception &ex) {
		ErrorData error(ex); // NOLINT: the text goes on
		return false;
	}
}

static string Declared(const MacroText::Overload &overload, idx_t position) {
	auto &type = overload.types[position];
	return overload.parameters[position] + (type.empty() ? "" : " " + type);
}

//! The defaults in TEXT, which begins with the parameter POSITION and ends with ")"; false if it is another's text.
static bool ReadDefaults(const MacroText::Overload &overload, const string &text, idx_t position,
                         vector<string> &defaults) {
	if (position == overload.parameters.size()) {
		return text == ")";
	}
	auto declared = Declared(overload, position);
	if (!StringUtil::StartsWith(text, declared)) {
		return false;
	}
	auto last = position + 1 == overload.parameters.size();
	auto end = last ? string(")") : ", " + Declared(overload, position + 1);
	auto rest = [&](idx_t at) {
		return text.substr(last ? at : at + 2);
	};
	static const string ASSIGN = " := ";
	auto begin = declared.size();
	if (text.compare(begin, ASSIGN.size(), ASSIGN) != 0) {
		defaults.emplace_back();
		return text.compare(begin, end.size(), end) == 0 && ReadDefaults(overload, rest(begin), position + 1, defaults);
	}
	begin += ASSIGN.size();
	// A default may hold what looks like its end.
	for (auto at = text.find(end, begin); at != string::npos; at = text.find(end, at + 1)) {
		auto value = text.substr(begin, at - begin);
		if (!IsExpression(value)) {
			continue;
		}
		auto known = defaults.size();
		defaults.push_back(std::move(value));
		if (ReadDefaults(overload, rest(at), position + 1, defaults)) {
			return true;
		}
		defaults.resize(known);
	}
	return false;
}

//! The parameters of all candidates, each up to its ")"; a default may hold line ends.
static vector<string> Candidates(const MacroText &macro) {
	vector<string> result;
	auto mark = "\n\t" + macro.name + "(";
	for (auto &error : macro.candidates) {
		auto at = error.find(mark);
		while (at != string::npos) {
			auto begin = at + mark.size();
			at = error.find(mark, begin);
			result.push_back(error.substr(begin, at == string::npos ? at : at - begin));
		}
	}
	return result;
}

static vector<string> Defaults(const MacroText &macro, const MacroText::Overload &overload,
                               const vector<string> &candidates) {
	vector<string> result;
	for (auto &candidate : candidates) {
		result.clear();
		if (ReadDefaults(overload, candidate, 0, result)) {
			return result;
		}
	}
	if (!overload.parameters.empty()) {
		throw NotImplementedException("the server does not tell the parameters of macro \"%s\" in a way that is "
		                              "understood here",
		                              macro.name);
	}
	return result;
}

string MacroText::ToSql() const {
	auto known = Candidates(*this);
	string result = "CREATE MACRO " + KeywordHelper::WriteQuoted(name, '"');
	for (auto &overload : overloads) {
		auto defaults = Defaults(*this, overload, known);
		vector<string> parameters;
		for (idx_t i = 0; i < overload.parameters.size(); i++) {
			auto parameter = KeywordHelper::WriteQuoted(overload.parameters[i], '"');
			if (!overload.types[i].empty()) {
				parameter += " " + overload.types[i];
			}
			parameters.push_back(parameter + (defaults[i].empty() ? "" : " := " + defaults[i]));
		}
		result += (&overload == &overloads[0] ? " (" : ", (") + StringUtil::Join(parameters, ", ") + ") AS " +
		          (table ? "TABLE (" + overload.definition + ")" : overload.definition);
	}
	return result;
}

unique_ptr<CreateMacroInfo> MacroText::Parse(ClientContext &context) const {
	for (auto &overload : overloads) {
		if (overload.types.size() != overload.parameters.size()) {
			throw IOException("the server tells more of one than of the other: parameters and types of macro \"%s\"",
			                  name);
		}
	}
	auto sql = ToSql();
	try {
		Parser parser;
		parser.ParseQuery(sql);
		auto &info = parser.statements.at(0)->Cast<CreateStatement>().info;
		auto result = unique_ptr_cast<CreateInfo, CreateMacroInfo>(std::move(info));
		for (auto &macro : result->macros) {
			for (auto &type : macro->types) {
				if (type.id() != LogicalTypeId::UNKNOWN) {
					type = BindRemoteType(context, type);
				}
			}
		}
		result->comment = common.comment;
		result->tags = common.tags;
		return result;
	} catch (std::exception &ex) {
		throw NotImplementedException("cannot read the definition of macro \"%s\" (%s): %s", name, sql,
		                              ErrorData(ex).RawMessage());
	}
}

} // namespace openduck
