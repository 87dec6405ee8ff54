#include "stages/weights/pickled_weights.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/utf8.h"

namespace stages {
namespace {

constexpr std::size_t kDeepest = 64;
constexpr std::size_t kMostVisits = 2'000'000;
constexpr const char* kEndless = "its dictionaries contain each other endlessly";

[[noreturn]] void refuse_weights(const std::string& why) { throw std::invalid_argument(why); }

/// Visits a value and everything below it, and collects the tensors.
class Walk {
 public:
  Walk(const Pickle& pickle, std::int64_t most_bytes) : pickle_(pickle), left_(most_bytes) {}

  void visit(const PickledValue* value) {
    if (++visits_ > kMostVisits || path_.size() > kDeepest) refuse_weights(kEndless);
    if (const auto* index = std::get_if<PickledTensorIndex>(&value->data)) {
      found_.push_back(weight(pickle_.tensors[index->index]));
    } else if (const auto* list = std::get_if<PickledList>(&value->data)) {
      for (std::size_t i = 0; i < list->items.size(); ++i) {
        if (can_hold_tensors(list->items[i])) visit_below(std::to_string(i), list->items[i]);
      }
    } else if (const auto* map = std::get_if<PickledMap>(&value->data)) {
      for (const auto& [key, item] : map->entries) {
        if (can_hold_tensors(item)) visit_below(text_of(key), item);
      }
    }
  }

  std::vector<PickledWeight> found() {
    std::ranges::sort(found_, {}, &PickledWeight::name);
    const auto twice = std::ranges::adjacent_find(found_, {}, &PickledWeight::name);
    if (twice != found_.end())
      refuse_weights("the tensor '" + runner::printable_ascii(twice->name) + "' appears twice");
    return std::move(found_);
  }

 private:
  static bool can_hold_tensors(const PickledValue* value) {
    return std::holds_alternative<PickledTensorIndex>(value->data) ||
           std::holds_alternative<PickledList>(value->data) ||
           std::holds_alternative<PickledMap>(value->data);
  }

  void visit_below(std::string key, const PickledValue* value) {
    path_.push_back(std::move(key));
    visit(value);
    path_.pop_back();
  }

  /// Returns a key as part of a name; empty if it cannot be one.
  static std::string text_of(const PickledValue* key) {
    if (const auto* text = std::get_if<std::string_view>(&key->data)) return std::string(*text);
    if (const auto* number = std::get_if<std::int64_t>(&key->data)) return std::to_string(*number);
    return "";
  }

  std::string name() const {
    std::string name;
    for (const std::string& part : path_) {
      if (part.empty() || runner::invalid_utf8(part))
        refuse_weights("the key of a tensor is not a valid name, under '" +
                       runner::printable_ascii(name) + "'");
      name += (name.empty() ? "" : ".") + part;
    }
    return name;
  }

  /// Returns a named tensor after checking that it is within its storage.
  PickledWeight weight(const PickledTensor& tensor) {
    PickledWeight weight{name(), tensor};
    const auto misfit = [&](const char* why) {
      refuse_weights("the tensor '" + runner::printable_ascii(weight.name) + "' " + why);
    };
    const PickledStorage& storage = pickle_.storages[tensor.storage];
    if (tensor.sizes.size() != tensor.strides.size())
      misfit("does not have as many strides as sizes");
    const std::int64_t count = storage.count * storage.type->bytes / tensor.type->bytes;
    std::int64_t elements = 1, last = tensor.offset, dense_stride = 1;
    bool overflows = false;
    weight.is_dense = tensor.offset == 0;
    for (std::size_t i = tensor.sizes.size(); i-- > 0;) {
      const std::int64_t size = tensor.sizes[i], stride = tensor.strides[i];
      if (size < 0 || stride < 0) misfit("has a size or stride below 0");
      overflows = overflows || __builtin_mul_overflow(elements, size, &elements);
      if (size == 0) continue;
      std::int64_t reach = 0;
      overflows = overflows || __builtin_mul_overflow(size - 1, stride, &reach) ||
                  __builtin_add_overflow(last, reach, &last);
      if (size > 1 && stride != dense_stride) weight.is_dense = false;
      overflows = overflows || __builtin_mul_overflow(dense_stride, size, &dense_stride);
    }
    if (tensor.offset < 0 || overflows || (elements > 0 && last >= count))
      misfit("extends beyond its storage");
    weight.count = elements;
    weight.is_dense = weight.is_dense && elements == count;
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(elements, tensor.type->bytes, &bytes) || bytes > left_) {
      misfit("expands to far more bytes than the file has");
    }
    left_ -= bytes;
    return weight;
  }

  const Pickle& pickle_;
  std::int64_t left_;
  std::size_t visits_ = 0;
  std::vector<std::string> path_;
  std::vector<PickledWeight> found_;
};

constexpr int kMostWrappers = 4;

/// The keys under which programs store a model in a checkpoint, in order of preference. timm tries
/// the first five, in this order.
constexpr std::array<std::string_view, 12> kModelKeys = {
    "state_dict_ema", "model_ema", "state_dict", "model_state", "model",   "model_state_dict",
    "params_ema",     "params",    "net",        "network",     "weights", "checkpoint"};

std::string_view text_of_key(const PickledValue* key) {
  const auto* text = std::get_if<std::string_view>(&key->data);
  return text ? *text : std::string_view();
}

bool holds_tensors(const PickledMap& map) {
  return std::ranges::any_of(map.entries, [](const auto& entry) {
    return std::holds_alternative<PickledTensorIndex>(entry.second->data);
  });
}

struct SavedModel {
  const PickledValue* value = nullptr;
  std::string keys;
};

/// Returns the dictionary in `map` that is known to be the model of a checkpoint; null if there is
/// none. `looks` counts the inspected entries, some more than once.
SavedModel model_in(const PickledMap& map, int wrappers, std::size_t& looks) {
  if (map.is_object || wrappers > kMostWrappers) return {};
  looks += kModelKeys.size() * map.entries.size();
  if (looks > kMostVisits) refuse_weights(kEndless);
  for (const std::string_view known : kModelKeys) {
    for (const auto& [key, value] : map.entries) {
      const auto* inner = std::get_if<PickledMap>(&value->data);
      if (!inner || text_of_key(key) != known) continue;
      const SavedModel found = model_in(*inner, wrappers + 1, looks);
      if (!found.value && !inner->is_object && !holds_tensors(*inner)) continue;
      return {found.value ? found.value : value,
              std::string(known) + (found.value ? '.' + found.keys : "")};
    }
  }
  return {};
}

/// Returns the keys under which `map` has dictionaries of tensors.
std::vector<std::string> entries_in(const PickledMap& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map.entries) {
    const auto* inner = std::get_if<PickledMap>(&value->data);
    const std::string_view text = text_of_key(key);
    if (inner && !text.empty() && !runner::invalid_utf8(text) && holds_tensors(*inner))
      keys.emplace_back(text);
  }
  return keys;
}

/// Returns the dictionary at `entry`, which consists of keys joined with dots; a key may itself
/// contain dots. Returns null if there is none.
const PickledValue* value_at(const PickledMap& map, std::string_view entry) {
  for (const auto& [key, value] : map.entries) {
    const std::string_view text = text_of_key(key);
    if (text.empty() || !entry.starts_with(text)) continue;
    const auto* inner = std::get_if<PickledMap>(&value->data);
    if (!inner) continue;
    if (text.size() == entry.size()) return value;
    if (entry[text.size()] != '.') continue;
    if (const PickledValue* found = value_at(*inner, entry.substr(text.size() + 1))) return found;
  }
  return nullptr;
}

/// True if these can be the names of one layer's tensors. Sibling dictionaries with the same names
/// are then layers of one model.
bool is_one_layer(const std::set<std::string_view>& names) {
  constexpr std::array<std::string_view, 5> kOfLayer = {"weight", "bias", "running_mean",
                                                        "running_var", "num_batches_tracked"};
  return std::ranges::all_of(
      names, [&](std::string_view name) { return std::ranges::count(kOfLayer, name) > 0; });
}

/// Returns the keys of dictionaries in `map` with mostly the same tensor names, such as a student
/// and its teacher. Ignores prefixes that torch's wrappers add.
std::vector<std::string> alike_in(const PickledMap& map) {
  if (map.is_object) return {};  // the dictionaries are parts of a module
  const auto names = [](const PickledMap& tensors) {
    std::set<std::string_view> names;
    for (const auto& [key, value] : tensors.entries) {
      std::string_view name = text_of_key(key);
      for (bool is_wrapped = true; is_wrapped;) {
        is_wrapped = false;
        for (const std::string_view wrapper : {"module.", "_orig_mod."}) {
          if (!name.starts_with(wrapper)) continue;
          name.remove_prefix(wrapper.size());
          is_wrapped = true;
        }
      }
      if (std::holds_alternative<PickledTensorIndex>(value->data)) names.insert(name);
    }
    return names;
  };
  std::vector<std::pair<std::string, std::set<std::string_view>>> all;
  for (const auto& [key, value] : map.entries) {
    const auto* inner = std::get_if<PickledMap>(&value->data);
    if (!inner || inner->is_object || !holds_tensors(*inner)) continue;
    if (auto tensors = names(*inner); !is_one_layer(tensors))
      all.emplace_back(text_of_key(key), std::move(tensors));
  }
  std::vector<std::string> keys;
  constexpr std::size_t kMostCompared = 16;
  for (std::size_t i = 0; all.size() <= kMostCompared && i < all.size(); ++i) {
    const bool is_alike = std::ranges::any_of(all, [&](const auto& other) {
      if (&other == &all[i]) return false;
      const auto common = std::ranges::count_if(
          all[i].second, [&](std::string_view name) { return other.second.contains(name); });
      return 2 * static_cast<std::size_t>(common) >
             std::min(other.second.size(), all[i].second.size());
    });
    if (is_alike) keys.push_back(all[i].first);
  }
  return keys;
}

std::string listed_entries(const std::vector<std::string>& keys) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> shown;
  for (const std::string& key : keys) shown.push_back(runner::printable_ascii(key));
  return runner::listed(shown, kShown, "'");
}

/// Returns the `weights` with names that begin with `entry`, without that prefix.
std::vector<PickledWeight> below(std::vector<PickledWeight> weights, const std::string& entry) {
  const std::string prefix = entry + '.';
  std::erase_if(weights,
                [&](const PickledWeight& weight) { return !weight.name.starts_with(prefix); });
  for (PickledWeight& weight : weights) weight.name.erase(0, prefix.size());
  return weights;
}

}  // namespace

PickledWeights pickled_weights(const Pickle& pickle, std::int64_t most_bytes,
                               const std::string& entry) {
  const auto* map = std::get_if<PickledMap>(&pickle.value->data);
  if (!map) refuse_weights("it contains no dictionary of tensors");
  std::size_t looks = 0;
  SavedModel model = model_in(*map, 1, looks);
  const PickledValue* asked = entry.empty() ? nullptr : value_at(*map, entry);
  if (asked) model = {asked, entry};
  if (!model.value && entry.empty()) {
    const std::vector<std::string> alike = alike_in(*map);
    if (!alike.empty())
      throw WeightsChoice("contains several models: " + listed_entries(alike), alike);
  }
  Walk walk(pickle, most_bytes);
  walk.visit(model.value ? model.value : pickle.value);
  PickledWeights result{walk.found(), model.keys, entries_in(*map)};
  if (!entry.empty() && !asked) {
    result.weights = below(std::move(result.weights), entry);
    if (result.weights.empty()) {
      const std::string has =
          result.others.empty() ? "" : "; it has " + listed_entries(result.others);
      throw WeightsChoice("has no entry '" + runner::printable_ascii(entry) + "'" + has,
                          result.others);
    }
    result.inside += (result.inside.empty() ? "" : ".") + entry;
  }
  if (result.inside.empty()) result.others.clear();  // the other dictionaries are part of the model
  std::erase(result.others, model.keys.substr(0, model.keys.find('.')));
  if (result.weights.empty()) refuse_weights("it contains no tensors");
  return result;
}

}  // namespace stages
