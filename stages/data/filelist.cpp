#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/shared/text/printable.h"
#include "stages/data/annotation_files.h"
#include "stages/text/class_text.h"

namespace stages {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxClassNameBytes = 1000;
constexpr std::size_t kMaxDepth = 100;  // for values under other keys
constexpr std::array<std::string_view, 3> kFilelistKeys = {"label_names", "image_names",
                                                           "image_labels"};

/// An iterator over a string that records how far it has advanced, since the JSON parser does not
/// report the position of its events.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    if (reached_) *reached_ = at_;
    return *this;
  }
  CountingIterator operator++(int) {
    const CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

/// Collects the contents of the three lists and ignores the rest of the text.
class FilelistParser final : public nlohmann::json_sax<json> {
 public:
  FilelistParser(AnnotationFiles& files, const std::string& name, std::string_view text)
      : files_(files), name_(name), text_(text), reached_(text.data()), counted_(text.data()) {}

  /// Returns false if the text does not have the expected form.
  bool parse() {
    const CountingIterator begin(text_.data(), &reached_),
        end(text_.data() + text_.size(), nullptr);
    if (!json::sax_parse(begin, end, this) || !is_faultless_) return false;
    for (std::size_t key = 0; key < kFilelistKeys.size(); ++key) {
      if (!seen_[key] && key != kNames)
        fault("it has no '" + std::string(kFilelistKeys[key]) + "'");
    }
    return is_faultless_;
  }

  std::vector<std::string> names, paths;
  std::vector<std::int64_t> labels;
  std::vector<std::size_t> lines;

  bool null() override { return scalar("null"); }
  bool boolean(bool value) override { return scalar(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    return number(value, std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > kLargestLabel) return scalar(std::to_string(value));
    return number(static_cast<std::int64_t>(value), std::to_string(value));
  }
  bool number_float(number_float_t, const string_t& text) override { return scalar(text); }
  bool binary(binary_t&) override { return scalar("binary"); }
  bool string(string_t& value) override {
    if (!in_list()) return scalar("a string");
    if (key_ == kLabels) return scalar("'" + runner::printable_ascii(value) + "'");
    if (key_ == kNames) {
      const bool is_name =
          !value.empty() && value.size() <= kMaxClassNameBytes && runner::printable(value) == value;
      if (!is_name) fault(item(names.size()) + " is not a name of 1 to 1000 printable bytes");
      names.push_back(std::move(value));
    } else {
      lines.push_back(line());
      paths.push_back(std::move(value));
    }
    return true;
  }
  bool start_object(std::size_t) override { return open(/*is_list=*/false); }
  bool start_array(std::size_t) override { return open(/*is_list=*/true); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    key_ = static_cast<std::size_t>(std::ranges::find(kFilelistKeys, name) - kFilelistKeys.begin());
    if (key_ < kFilelistKeys.size() && std::exchange(seen_[key_], true))
      fault("'" + name + "' appears twice");
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    fault("it is not JSON");
    return false;
  }

 private:
  static constexpr std::size_t kNames = 0, kLabels = 2, kOther = kFilelistKeys.size();
  static constexpr std::uint64_t kLargestLabel = 1'000'000'000;

  bool in_list() const { return depth_ == 2 && key_ < kOther && is_list_; }

  bool number(std::int64_t value, const std::string& text) {
    if (!in_list() || key_ != kLabels || value < 0) return scalar(text);
    labels.push_back(value);
    return true;
  }

  /// Reports a scalar that is in the wrong place or of the wrong type.
  bool scalar(const std::string& text) {
    if (depth_ == 0) fault(kNoObject);
    if (depth_ == 1 && key_ < kOther)
      fault("its '" + std::string(kFilelistKeys[key_]) + "' is not a list");
    if (!in_list()) return true;
    if (key_ == kLabels) {
      fault(item(labels.size()) + " is " + text + ", but a label must be an integer from 0 to " +
            std::to_string(kLargestLabel));
      labels.push_back(0);  // so that the following labels keep their positions
    } else {
      fault(item(entries()) + " is " + text + ", not a string");
      add_nothing();
    }
    return true;
  }

  bool open(bool is_list) {
    if (depth_ == 0 && is_list) return stop(kNoObject);
    if (in_list())
      return stop(item(entries()) + " is not a " + (key_ == kLabels ? "number" : "string"));
    if (depth_ == 1 && key_ < kOther && !is_list)
      return stop("its '" + std::string(kFilelistKeys[key_]) + "' is not a list");
    if (depth_ == kMaxDepth) return stop("it is nested too deeply");
    if (depth_ == 1) is_list_ = is_list;
    ++depth_;
    return true;
  }

  bool close() {
    --depth_;
    return true;
  }

  std::size_t entries() const {
    return key_ == kNames ? names.size() : key_ == kLabels ? labels.size() : paths.size();
  }
  void add_nothing() {
    if (key_ == kNames) {
      names.emplace_back();
    } else {
      paths.emplace_back();
      lines.push_back(line());
    }
  }
  std::string item(std::size_t index) const {
    return std::string(kFilelistKeys[key_]) + "[" + std::to_string(index) + "]";
  }

  /// Returns the line of the last event. The parser ends a number only after reading the next
  /// character, which may be the line break.
  std::size_t line() {
    const char* const last =
        reached_ > text_.data() && reached_[-1] == '\n' ? reached_ - 1 : reached_;
    if (last > counted_) {
      line_ += static_cast<std::size_t>(std::count(counted_, last, '\n'));
      counted_ = last;
    }
    return line_;
  }

  bool stop(const std::string& what) {
    fault(what);
    return false;
  }
  void fault(const std::string& what) {
    is_faultless_ = false;
    files_.fault(name_, line(), what);
  }

  static constexpr const char* kNoObject =
      R"(it does not have the form {"label_names": [], "image_names": [], "image_labels": []})";
  AnnotationFiles& files_;
  const std::string& name_;
  const std::string_view text_;
  const char *reached_, *counted_;
  std::size_t line_ = 1, depth_ = 0, key_ = kOther;
  bool is_list_ = false, is_faultless_ = true;
  std::array<bool, kFilelistKeys.size()> seen_{};
};

}  // namespace

ListedImages read_filelist(AnnotationFiles& files, const std::string& name) {
  const auto text = files.read(name, kMaxListBytes);
  if (!text) return {};
  FilelistParser parsed(files, name, *text);
  if (!parsed.parse()) return {};
  if (parsed.paths.size() != parsed.labels.size()) {
    files.fault(name, "it has " + std::to_string(parsed.paths.size()) + " image_names and " +
                          std::to_string(parsed.labels.size()) +
                          " image_labels: each image needs one label");
    return {};
  }
  if (parsed.paths.empty()) return {};
  ListedImages list{.paths = std::move(parsed.paths), .lines = std::move(parsed.lines)};
  const std::set<std::int64_t> occurring(parsed.labels.begin(), parsed.labels.end());
  const bool at_positions = *occurring.rbegin() < static_cast<std::int64_t>(parsed.names.size());
  list.is_named = !parsed.names.empty();
  if (list.is_named && !at_positions && parsed.names.size() != occurring.size()) {
    files.fault(name,
                "its " + std::to_string(parsed.names.size()) +
                    " label_names do not match its labels: " + std::to_string(occurring.size()) +
                    " different labels occur, and the largest is " +
                    std::to_string(*occurring.rbegin()));
    return {};
  }
  std::map<std::int64_t, std::int64_t> positions;
  std::map<std::string, std::int64_t> named;
  for (const std::int64_t label : occurring) {
    const auto position = static_cast<std::int64_t>(positions.size());
    positions.emplace(label, position);
    list.classes.push_back(
        !list.is_named ? std::to_string(label)
                       : parsed.names[static_cast<std::size_t>(at_positions ? label : position)]);
    const auto [same, is_new] = named.emplace(compared_name(list.classes.back()), label);
    if (!is_new) {
      files.fault(name, "labels " + std::to_string(same->second) + " and " + std::to_string(label) +
                            " are both called '" + list.classes.back() + "'");
    }
  }
  for (const std::int64_t label : parsed.labels) list.labels.push_back(positions.at(label));
  return list;
}

}  // namespace stages
