#include "runner/schema/schema_json.h"

#include <utility>
#include <vector>

namespace runner {
namespace {

using Json = SchemaReader::Json;

/// Makes Json of the parser's events.
class JsonBuilder : public Json::json_sax_t {
 public:
  Json root;
  std::string problem;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // not in a text
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    auto& object = open_.back()->get_ref<Json::object_t&>();
    if (object.empty()) object.reserve(8);
    if (object.find(name) != object.end() && problem.empty()) problem = "key '" + name + "' appears twice";
    value_of_key_ = &object[name];
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    problem = error.what();
    return false;
  }

 private:
  Json& place() {
    if (open_.empty()) return root;
    return open_.back()->is_array() ? open_.back()->emplace_back() : *value_of_key_;
  }
  template <typename T>
  bool add(T&& value) {
    place() = std::forward<T>(value);
    return true;
  }
  bool open(Json container) {
    Json& here = place();
    here = std::move(container);
    open_.push_back(&here);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<Json*> open_;  // a container does not grow while one inside it is open
  Json* value_of_key_ = nullptr;
};

}  // namespace

SchemaJson read_schema_json(std::string_view text) {
  JsonBuilder builder;
  Json::sax_parse(text, &builder);
  return {std::move(builder.root), std::move(builder.problem)};
}

}  // namespace runner
