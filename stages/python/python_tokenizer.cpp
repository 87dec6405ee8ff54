#include "stages/python/python_tokenizer.h"

#include <exception>

#include <nlohmann/json.hpp>

#include "stages/python/python_host.h"

namespace stages {
namespace {

std::int64_t next_tokenizer_id() {
  static std::int64_t last = 0;
  return ++last;
}

}  // namespace

PythonTokenizer::PythonTokenizer(const std::string& entry, const nlohmann::ordered_json& arguments)
    : id_(next_tokenizer_id()) {
  call_python(
      {{"do", "make_tokenizer"}, {"tokenizer", id_}, {"entry", entry}, {"arguments", arguments}});
}

PythonTokenizer::~PythonTokenizer() {
  try {
    call_python({{"do", "release_tokenizer"}, {"tokenizer", id_}});
  } catch (const std::exception&) {
    // Python then keeps the tokenizer until the worker exits.
  }
}

at::Tensor PythonTokenizer::tokens(const std::vector<std::string>& texts) const {
  call_python({{"do", "tokenize"}, {"tokenizer", id_}, {"texts", texts}});
  return taken_from_python("tokens");
}

}  // namespace stages
