#include "stages/artifact/dataset.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/run_context.h"
#include "runner/shared/text/join.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"
#include "stages/random/random.h"

namespace stages {

std::int64_t SampleOrder::size() const {
  return std::visit([](const auto& order) { return static_cast<std::int64_t>(order.size()); },
                    order_);
}

std::int64_t SampleOrder::operator[](std::int64_t place) const {
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&order_))
    return (*list)[static_cast<std::size_t>(place)];
  if (const auto* permutation = std::get_if<Permutation>(&order_)) return (*permutation)[place];
  return std::get<Sequence>(order_)[place];
}

SampleOrder shuffled_order(std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  if (size > kLongestListedOrder) return Permutation(size, seed, epoch);
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  Random random({seed, static_cast<std::uint64_t>(epoch)});
  for (std::int64_t i = size - 1; i > 0; --i) {
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(random.below(i + 1))]);
  }
  return order;
}

SampleOrder sequential_order(std::int64_t size) { return SampleOrder::sequential(size); }

void report_remarks(std::initializer_list<const Dataset*> datasets, std::int64_t step,
                    runner::RunContext& context) {
  constexpr std::size_t kNamed = 3;
  if (context.node().smoke) return;  // a smoke run reads only a few samples
  using Remarks = RemarkingDataset::Remarks;
  std::vector<Remarks> kinds;
  for (const Dataset* dataset : datasets) {
    const auto* remarking = dynamic_cast<const RemarkingDataset*>(dataset);
    if (!remarking) continue;
    std::vector<std::int64_t> indices(static_cast<std::size_t>(dataset->describe().size));
    std::iota(indices.begin(), indices.end(), 0);
    for (Remarks& some : remarking->take_remarks(indices)) {
      const auto same = std::ranges::find(kinds, some.of_one, &Remarks::of_one);
      if (same == kinds.end()) {
        kinds.push_back(std::move(some));
        continue;
      }
      same->count += some.count;
      std::ranges::move(some.unreported, std::back_inserter(same->unreported));
    }
  }
  for (const Remarks& all : kinds) {
    if (all.count > 0 && !all.metric.empty())
      context.metric(all.metric, static_cast<double>(all.count), step);
    if (all.unreported.empty()) continue;
    context.say(
        "warning: " + std::to_string(all.unreported.size()) +
        (all.unreported.size() == 1 ? " image " + all.of_one : " images " + all.of_several) + ": " +
        runner::listed(all.unreported, kNamed, "'"));
  }
}

namespace {

using nlohmann::json;

// Limits that no real sample reaches; only an attempt to exhaust memory would exceed them.
constexpr std::size_t kMaxTensors = 1000, kMaxDimensions = 16, kMaxName = 1000;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 31;
constexpr std::size_t kMaxTransform = 64 << 10;

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 9> kTypes = {
    {{"bool", at::kBool},
     {"uint8", at::kByte},
     {"int8", at::kChar},
     {"int32", at::kInt},
     {"int64", at::kLong},
     {"float16", at::kHalf},
     {"bfloat16", at::kBFloat16},
     {"float32", at::kFloat},
     {"float64", at::kDouble}}};

[[noreturn]] void refuse(const std::string& key, const std::string& what) {
  throw std::runtime_error("its '" + key + "' " + what);
}

json parsed(const std::map<std::string, std::string>& about, const std::string& key) {
  const auto found = about.find(key);
  if (found == about.end()) refuse(key, "is missing");
  json list = runner::parse_json<json>(found->second);
  if (!list.is_array()) refuse(key, "is not a list");
  return list;
}

json to_json(const TensorSpec& tensor) {
  const auto* const type =
      std::ranges::find(kTypes, tensor.dtype, [](const auto& item) { return item.second; });
  if (type == kTypes.end()) throw std::invalid_argument("a sample has an unsupported type");
  return {{"name", tensor.name}, {"shape", tensor.shape}, {"dtype", type->first}};
}

TensorSpec tensor_from(const json& json) {
  const runner::JsonFields fields(json, "one of its 'tensors'");
  fields.only({"name", "shape", "dtype"});
  TensorSpec tensor;
  tensor.name = fields.text("name");
  if (tensor.name.size() > kMaxName) fields.fail("name", "a valid name");
  const std::string word = fields.text("dtype");
  const auto* const type =
      std::ranges::find(kTypes, word, [](const auto& item) { return item.first; });
  if (type == kTypes.end()) fields.fail("dtype", "a known type");
  tensor.dtype = type->second;
  if (fields.list("shape").size() > kMaxDimensions) fields.fail("shape", "a valid shape");
  std::int64_t elements = 1;
  for (const auto& length : fields.list("shape")) {
    const bool is_length =
        length.is_number_unsigned() && length.get<std::uint64_t>() >= 1 &&
        length.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMaxElements / elements);
    if (!is_length) fields.fail("shape", "a valid shape");
    tensor.shape.push_back(length.get<std::int64_t>());
    elements *= tensor.shape.back();
  }
  return tensor;
}

std::int64_t pair_from(const std::string& text, const DatasetDescription& data) {
  const json classes = runner::parse_json<json>(text);
  const bool is_number = classes.is_number_unsigned() && classes.get<std::uint64_t>() >= 2 &&
                         classes.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMaxElements);
  if (!is_number || data.classes.size() != 2)
    refuse("pair_of", "is not a number of classes, or there are not exactly two classes");
  return classes.get<std::int64_t>();
}

OrdinalHead ordinal_from(const std::string& text, const DatasetDescription& data) {
  const json name = runner::parse_json<json>(text);
  const auto head = name.is_string() ? ordinal_head_named(name.get<std::string>()) : std::nullopt;
  if (!head || data.classes.size() < 2)
    refuse("ordinal", "is not a known head, or there are fewer than two classes");
  return *head;
}

json to_json(const TrainedTargets& targets) {
  return {{"mean", targets.mean},
          {"standard_deviation", targets.standard_deviation},
          {"standardized", targets.are_standardized}};
}

std::vector<double> finite_numbers(const runner::JsonFields<json>& fields, const char* key,
                                   std::size_t count) {
  std::vector<double> numbers;
  for (const json& one : fields.list(key)) {
    if (!one.is_number() || !std::isfinite(one.get<double>()))
      fields.fail(key, "a list of numbers");
    numbers.push_back(one);
  }
  if (numbers.size() != count) fields.fail(key, "a number for each target");
  return numbers;
}

TrainedTargets targets_from(const json& json, std::size_t count) {
  const runner::JsonFields fields(json, "its 'targets'");
  fields.only({"mean", "standard_deviation", "standardized"});
  TrainedTargets targets{.mean = finite_numbers(fields, "mean", count),
                         .standard_deviation = finite_numbers(fields, "standard_deviation", count),
                         .are_standardized = fields.flag("standardized")};
  if (std::ranges::any_of(targets.standard_deviation, [&](double number) {
        return targets.are_standardized ? number <= 0 : number < 0;
      }))
    fields.fail("standard_deviation", "a list of positive numbers");
  return targets;
}

/// Returns a list of names, one per class.
std::vector<std::string> names_from(const std::map<std::string, std::string>& about,
                                    const std::string& key) {
  std::vector<std::string> names;
  for (const json& name : parsed(about, key)) {
    if (!name.is_string()) refuse(key, "has an invalid name");
    names.push_back(name);
  }
  return names;
}

}  // namespace

std::map<std::string, std::string> describe_data(const DatasetDescription& data) {
  json tensors = json::array();
  for (const TensorSpec& tensor : data.tensors) tensors.push_back(to_json(tensor));
  // Names come from folder names, which need not be UTF-8.
  const auto text = [](const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  std::map<std::string, std::string> about = {
      {"classes", text(data.classes)}, {"tensors", text(tensors)}, {"transform", data.transform}};
  if (words_of(data) != data.classes) about["class_words"] = text(data.class_words);
  if (data.pair_of > 0) about["pair_of"] = std::to_string(data.pair_of);
  if (data.ordinal != OrdinalHead::kNone) about["ordinal"] = text(name_of(data.ordinal));
  if (!data.targets.mean.empty()) about["targets"] = text(to_json(data.targets));
  return about;
}

DatasetDescription described_data(const std::map<std::string, std::string>& about) {
  DatasetDescription data;
  data.classes = names_from(about, "classes");
  if (about.contains("class_words")) data.class_words = names_from(about, "class_words");
  if (!data.class_words.empty() && data.class_words.size() != data.classes.size())
    refuse("class_words", "does not have one name per class");
  const json tensors = parsed(about, "tensors");
  if (tensors.size() > kMaxTensors) refuse("tensors", "is too long");
  for (const json& tensor : tensors) data.tensors.push_back(tensor_from(tensor));
  const auto transform = about.find("transform");
  if (transform == about.end()) refuse("transform", "is missing");
  if (transform->second.size() > kMaxTransform) refuse("transform", "is too long");
  data.transform = transform->second;
  if (const auto pair = about.find("pair_of"); pair != about.end())
    data.pair_of = pair_from(pair->second, data);
  if (const auto head = about.find("ordinal"); head != about.end())
    data.ordinal = ordinal_from(head->second, data);
  if (const auto targets = about.find("targets"); targets != about.end())
    data.targets = targets_from(runner::parse_json<json>(targets->second), data.classes.size());
  return data;
}

}  // namespace stages
