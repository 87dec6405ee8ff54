#include "runner/parent/config/edit.h"

#include <algorithm>
#include <iterator>

namespace runner {
namespace {

/// The item that `index` counts, from the end when it is negative; nullopt when there is none.
std::optional<std::ptrdiff_t> item_at(const Value::List& list, std::int64_t index) {
  const std::ptrdiff_t size = std::ssize(list);
  if (index < -size || index >= size) return std::nullopt;
  return index < 0 ? index + size : index;
}

EditProblem no_item(const Value::List& list, std::int64_t index) {
  const std::string size = std::to_string(list.size());
  return {"has no item " + std::to_string(index), list.empty()
                                                      ? "it is empty"
                                                      : "it has " + size + (list.size() == 1 ? " item" : " items") +
                                                            ", counted from 0, or from the end as -1 to -" + size};
}

std::optional<EditProblem> remove_values(Value::List& list, const Edit& edit) {
  for (const Value& value : edit.values) {
    const bool is_there = std::ranges::any_of(list, [&](const Value& item) { return same_data(item, value); });
    if (!is_there) return EditProblem{"does not contain " + describe(value), ""};
  }
  std::erase_if(list, [&](const Value& item) {
    return std::ranges::any_of(edit.values, [&](const Value& value) { return same_data(item, value); });
  });
  return std::nullopt;
}

}  // namespace

std::optional<EditProblem> apply_edit(Value::List& list, const Edit& edit) {
  const auto insert = [&](std::ptrdiff_t at) {
    list.insert(list.begin() + at, edit.values.begin(), edit.values.end());
  };
  switch (edit.kind) {
    case Edit::Kind::kAppend:
      insert(std::ssize(list));
      break;
    case Edit::Kind::kPrepend:
      insert(0);
      break;
    case Edit::Kind::kInsert: {
      const auto at = edit.index == std::ssize(list) ? std::optional(std::ssize(list)) : item_at(list, edit.index);
      if (!at) return no_item(list, edit.index);
      insert(*at);
      break;
    }
    case Edit::Kind::kRemoveAt: {
      const auto at = item_at(list, edit.index);
      if (!at) return no_item(list, edit.index);
      list.erase(list.begin() + *at);
      break;
    }
    case Edit::Kind::kRemoveValue:
      return remove_values(list, edit);
    case Edit::Kind::kReplace:
      break;
  }
  return std::nullopt;
}

}  // namespace runner
