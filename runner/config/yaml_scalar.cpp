#include "runner/config/yaml_scalar.h"

#include <utility>

#include "runner/config/scalar.h"

namespace runner {
namespace {

constexpr std::string_view kCore = "tag:yaml.org,2002:";

/// The start of `text`, in quotes.
std::string start_in_quotes(const std::string& text) {
  constexpr std::size_t kMaxShown = 60;  // what is longer is a number, or cut anywhere for a message
  return "'" + (text.size() > kMaxShown ? text.substr(0, kMaxShown) + "..." : text) + "'";
}

/// Is an integer that starts with 0 another number than its digits say?
bool is_octal_trap(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  const bool is_octal = text.size() > 1 && text[0] == '0' && text[1] != 'x' && text[1] != 'b';
  return is_octal && text.find_first_not_of("0_") < text.size() - 1;
}

}  // namespace

Value yaml_scalar(const Location& where, const std::string& tag, const std::string& text, Diagnostics& errors) {
  if (tag == "!" || tag.empty() || tag == "tag:yaml.org,2002:str") return {text, where};
  const auto error = [&](ErrorCode code, std::string message, std::string help) {
    errors.push_back({code, where, "", std::move(message), std::move(help)});
    return Value{text, where};
  };
  const bool plain = tag == "?";
  const bool core = tag.starts_with(kCore);
  const std::string wanted = core ? tag.substr(kCore.size()) : "";
  if (!plain && wanted != "int" && wanted != "float" && wanted != "bool" && wanted != "null") {
    return error(ErrorCode::kUnknownTag, "unknown tag '" + (core ? "!!" + wanted : tag) + "'",
                 "remove the tag; !!str, !!int, !!float, !!bool and !!null are understood");
  }
  if (plain && text == "=") return error(ErrorCode::kYamlSyntax, "'=' alone means something else to YAML", "quote it");
  std::optional<PlainScalar> read = plain_scalar(text);
  if (!read) {
    return error(ErrorCode::kNumberOutOfRange, "an integer of more than 4300 digits",
                 "write it in quotes if it is a name");
  }
  Value value{std::move(read->data), where};
  value.form = read->form;
  if (wanted == "float") {
    if (const auto* integer = std::get_if<std::int64_t>(&value.data)) value.data = static_cast<double>(*integer);
    if (value.form == ScalarForm::kBigInteger) value = {parse_double(*value.text()), where};
  }
  const bool fits = plain ||
                    (wanted == "int" &&
                     (std::holds_alternative<std::int64_t>(value.data) || value.form == ScalarForm::kBigInteger)) ||
                    (wanted == "float" && std::holds_alternative<double>(value.data)) ||
                    (wanted == "bool" && std::holds_alternative<bool>(value.data)) ||
                    (wanted == "null" && value.is_null());
  if (!fits)
    error(ErrorCode::kYamlSyntax, describe({text, where}) + " cannot be read as !!" + wanted, "remove the tag");
  return value;
}

std::optional<Diagnostic> yaml_trap(const std::string& text, const Value& read) {
  const auto warning = [&](const std::string& as) {
    return Diagnostic{
        .code = ErrorCode::kYamlTrap,
        .where = read.where,
        .message = start_in_quotes(text) + " without quotes is " + as,
        .help = "write " + scalar_text(read) + " if that is meant, else " + start_in_quotes(text) + " in quotes",
        .severity = Severity::kWarning};
  };
  if (std::holds_alternative<bool>(read.data) && std::string_view("tTfF").find(text[0]) == std::string_view::npos) {
    return warning("the boolean " + scalar_text(read));
  }
  const bool is_integer = std::holds_alternative<std::int64_t>(read.data) || read.form == ScalarForm::kBigInteger;
  if (!is_integer && !std::holds_alternative<double>(read.data)) return std::nullopt;
  if (text.find(':') != std::string::npos) return warning("a number in base 60: " + scalar_text(read));
  if (is_integer && is_octal_trap(text)) return warning("an octal number: " + scalar_text(read));
  return std::nullopt;
}

}  // namespace runner
