#include "runner/parent/config/zip.h"

#include "runner/parent/config/override.h"
#include "runner/parent/config/override_value.h"

namespace runner {
namespace {

[[noreturn]] void bad_zip(Location where, std::string message, std::string help) {
  fail_override(where, std::move(message), std::move(help), ErrorCode::kBadFunctionCall);
}

}  // namespace

Element zip(FunctionCall call) {
  if (!call.arguments.empty() || call.named.empty()) {
    bad_zip(call.where, "zip() takes lists named by their keys",
            "write name=zip(a=[1,2],b.c=[3,4])");
  }
  Sweep result{.kind = Sweep::Kind::kZip, .where = call.where};
  for (auto& [key, element] : call.named) {
    Value* value = element.value();
    if (!value || !value->list())
      bad_zip(element.where, "the values of '" + key + "' are not a list",
              "write " + key + "=[1,2]");
    if (&key == &call.named.front().first) result.rows.resize(value->list()->size());
    if (value->list()->size() != result.rows.size()) {
      bad_zip(element.where,
              "'" + key + "' has " + std::to_string(value->list()->size()) + " values and '" +
                  call.named.front().first + "' has " + std::to_string(result.rows.size()),
              "the lists of a zip() must have the same length");
    }
    Override column;
    const SourceText name{"", key};
    try {
      read_override_key(name, 0, key.size(), column);
    } catch (OverrideError& error) {
      error.diagnostic.where = element.where;
      throw;
    }
    column.key_where = column.package_where = column.where = element.where;
    for (std::size_t row = 0; row < result.rows.size(); ++row) {
      column.value = std::move((*value->list())[row]);
      column.value_text = element_text(*column.value);
      result.rows[row].push_back(column);
    }
  }
  return {std::move(result), call.where};
}

}  // namespace runner
