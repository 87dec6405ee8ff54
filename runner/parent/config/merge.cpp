#include "runner/parent/config/merge.h"

#include <utility>

namespace runner {

bool is_mandatory(const Value& value) { return value.text() && *value.text() == "???"; }

bool is_interpolation(const Value& value) { return value.text() && value.text()->find("${") != std::string::npos; }

Diagnostic container_clash(const Value& base, const Value& over, const std::string& pointer) {
  return {ErrorCode::kContainerClash,
          over.where,
          pointer,
          "a " + std::string(type_name(over)) + " cannot replace a " + std::string(type_name(base)),
          "delete the old value first, or write a " + std::string(type_name(base)),
          {{base.where, "the " + std::string(type_name(base)) + " is written here"}}};
}

void merge(Value& base, Value over, const std::string& pointer, Diagnostics& errors) {
  if ((base.list() && over.map()) || (base.map() && over.list())) {
    errors.push_back(container_clash(base, over, pointer));
    return;
  }
  if (is_interpolation(base) && over.map()) {
    errors.push_back({ErrorCode::kContainerClash,
                      over.where,
                      pointer,
                      "a mapping cannot be merged into an interpolation",
                      "write the mapping out where the interpolation is",
                      {{base.where, "the interpolation"}}});
    return;
  }
  if (!base.map() || !over.map()) {
    if (!is_mandatory(over) || base.is_null()) base = std::move(over);
    return;
  }
  if (base.map()->empty()) {
    base = std::move(over);
    return;
  }
  // Another kind makes it another thing: what is wrong with that is to be seen there.
  const Value *kind = base.find("kind"), *new_kind = over.find("kind");
  if (new_kind && (!kind || !same_data(*kind, *new_kind))) base.where = over.where;
  for (Entry& entry : *over.map()) {
    if (Value* existing = base.find(entry.key)) {
      merge(*existing, std::move(entry.value), pointer_to(pointer, entry.key), errors);
    } else {
      base.map()->push_back(std::move(entry));
    }
  }
}

}  // namespace runner
