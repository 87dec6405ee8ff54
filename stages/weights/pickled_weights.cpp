#include "stages/weights/pickled_weights.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "runner/text/utf8.h"
#include "runner/text/printable.h"

namespace stages {
namespace {

constexpr std::size_t kDeepest = 64;
constexpr std::size_t kMostVisits = 2'000'000;
constexpr const char* kEndless = "its dictionaries hold one another without end";

[[noreturn]] void refuse_weights(const std::string& why) { throw std::invalid_argument(why); }

/// Goes through a value and all below it, and gathers the tensors.
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
           std::holds_alternative<PickledList>(value->data) || std::holds_alternative<PickledMap>(value->data);
  }

  void visit_below(std::string key, const PickledValue* value) {
    path_.push_back(std::move(key));
    visit(value);
    path_.pop_back();
  }

  /// A key as part of a name; an empty one where it can be none.
  static std::string text_of(const PickledValue* key) {
    if (const auto* text = std::get_if<std::string_view>(&key->data)) return std::string(*text);
    if (const auto* number = std::get_if<std::int64_t>(&key->data)) return std::to_string(*number);
    return "";
  }

  std::string name() const {
    std::string name;
    for (const std::string& part : path_) {
      if (part.empty() || runner::invalid_utf8(part))
        refuse_weights("a key that leads to a tensor is not a name, below '" + runner::printable_ascii(name) + "'");
      name += (name.empty() ? "" : ".") + part;
    }
    return name;
  }

  /// Checks that the tensor lies in its storage.
  PickledWeight weight(const PickledTensor& tensor) {
    PickledWeight weight{name(), tensor};
    const auto misfit = [&](const char* why) {
      refuse_weights("the tensor '" + runner::printable_ascii(weight.name) + "' " + why);
    };
    const PickledStorage& storage = pickle_.storages[tensor.storage];
    if (tensor.sizes.size() != tensor.strides.size()) misfit("has not as many strides as sizes");
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
      overflows =
          overflows || __builtin_mul_overflow(size - 1, stride, &reach) || __builtin_add_overflow(last, reach, &last);
      if (size > 1 && stride != dense_stride) weight.is_dense = false;
      overflows = overflows || __builtin_mul_overflow(dense_stride, size, &dense_stride);
    }
    if (tensor.offset < 0 || overflows || (elements > 0 && last >= count)) misfit("reaches beyond its storage");
    weight.count = elements;
    weight.is_dense = weight.is_dense && elements == count;
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(elements, tensor.type->bytes, &bytes) || bytes > left_) {
      misfit("repeats numbers until they are far more than the file");
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

using SavedModel = std::pair<const PickledValue*, std::string>;

/// The one dictionary of `map` that is known to be the model of a checkpoint, with its keys; null where there is none.
/// `looks` counts the entries that were looked at, some more than once.
SavedModel model_in(const PickledMap& map, int wrappers, std::size_t& looks) {
  constexpr std::array kKeys = {"model", "model_state_dict", "state_dict"};
  SavedModel model{};
  if (map.is_object || wrappers > kMostWrappers) return model;
  looks += map.entries.size();
  if (looks > kMostVisits) refuse_weights(kEndless);
  for (const auto& [key, value] : map.entries) {
    const auto* text = std::get_if<std::string_view>(&key->data);
    const auto* inner = std::get_if<PickledMap>(&value->data);
    if (!text || !inner || std::ranges::find(kKeys, *text) == kKeys.end()) continue;
    SavedModel found = model_in(*inner, wrappers + 1, looks);
    const bool has_tensors = inner->is_object || std::ranges::any_of(inner->entries, [](const auto& entry) {
                               return std::holds_alternative<PickledTensorIndex>(entry.second->data);
                             });
    if (!found.first && !has_tensors) continue;
    if (model.first)
      refuse_weights("it has a model in '" + model.second + "' and another in '" + std::string(*text) + "'");
    model = {found.first ? found.first : value, std::string(*text) + (found.first ? '.' + found.second : "")};
  }
  return model;
}

}  // namespace

PickledWeights pickled_weights(const Pickle& pickle, std::int64_t most_bytes) {
  const auto* map = std::get_if<PickledMap>(&pickle.value->data);
  if (!map) refuse_weights("it holds no dictionary of tensors");
  std::size_t looks = 0;
  const auto [model, inside] = model_in(*map, 1, looks);
  Walk walk(pickle, most_bytes);
  walk.visit(model ? model : pickle.value);
  PickledWeights result{walk.found(), inside};
  if (result.weights.empty()) refuse_weights("it holds no tensor");
  return result;
}

}  // namespace stages
