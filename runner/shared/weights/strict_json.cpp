#include "runner/shared/weights/strict_json.h"

#include <stdexcept>
#include <unordered_set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/text/printable.h"

namespace runner {
namespace {

using nlohmann::json;

/// Scans JSON text and rejects what the library would accept: duplicate names in an object, and
/// deep nesting. Runs in linear time, unlike the library's own callbacks.
class DepthWatch final : public nlohmann::json_sax<json> {
 public:
  DepthWatch(std::size_t depth, const std::string& what) : depth_(depth), what_(what) {}
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return descend(); }
  bool start_array(std::size_t) override { return descend(); }
  bool end_object() override { return ascend(); }
  bool end_array() override { return ascend(); }
  bool key(string_t& name) override {
    if (names_.back().insert(name).second) return true;
    throw std::invalid_argument("the name '" + printable_ascii(name) + "' appears twice");
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    throw std::invalid_argument(what_ + " is not JSON");
  }

 private:
  bool descend() {
    if (names_.size() == depth_) throw std::invalid_argument(what_ + " is nested too deeply");
    names_.emplace_back();
    return true;
  }
  bool ascend() {
    names_.pop_back();
    return true;
  }

  const std::size_t depth_;
  const std::string& what_;
  std::vector<std::unordered_set<std::string>> names_;
};

}  // namespace

json parse_strict_json(std::string_view text, std::size_t depth, const std::string& what) {
  const std::string not_json = what + " is not JSON";
  if (text.find('\0') != text.npos)
    throw std::invalid_argument(not_json);  // the library treats NUL as the end
  DepthWatch watch(depth, what);
  json::sax_parse(text, &watch);
  try {
    return json::parse(text);
  } catch (const json::exception&) {
    throw std::invalid_argument(not_json);  // thrown for a number out of range
  }
}

}  // namespace runner
