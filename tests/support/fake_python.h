#pragma once

#include <exception>
#include <functional>
#include <string>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "runner/shared/value/parse_json.h"
#include "stages/python/python_host.h"
#include "stages/tensor/named_tensors.h"

/// Answers a worker's requests to the Python that hosts it, as stages/python/retort_host does, one
/// at a time. An exception becomes a Python exception.
class FakePython {
 public:
  using Json = nlohmann::ordered_json;
  using Tensors = stages::NamedTensors;

  FakePython() {
    current() = this;
    stages::set_python([](const char* request) {
      Json reply;
      int failed = 0;
      try {
        reply = current()->answer(runner::parse_json<Json>(std::string(request)));
      } catch (const c10::OutOfMemoryError& error) {
        reply = {{"error", error.what()}, {"out_of_memory", true}};
        failed = 1;
      } catch (const std::exception& error) {
        reply = {{"error", error.what()}, {"advice", current()->advice}};
        failed = 1;
      }
      stages::reply_to_python_call(reply.dump().c_str());
      return failed;
    });
  }
  ~FakePython() {
    stages::set_python(nullptr);
    stages::clear_python_tensors();
    current() = nullptr;
  }
  FakePython(const FakePython&) = delete;
  FakePython& operator=(const FakePython&) = delete;

  std::function<at::Tensor(const Tensors& encoded, const Tensors& batch)> loss;
  std::function<Tensors(const Tensors& encoded, const Tensors& batch)> score;  ///< null: none
  std::function<Tensors(const Tensors& batch)> encode;                         ///< null: none
  std::function<Json(const Json& request, const at::Tensor& outputs, const at::Tensor& targets)>
      measure;
  std::string advice;  ///< with an exception

 private:
  static FakePython*& current() {
    static FakePython* one = nullptr;
    return one;
  }

  static Tensors given(const std::string& prefix, const Json& names) {
    Tensors tensors;
    for (const std::string name : names)
      tensors.set(name, stages::taken_from_python(prefix + name));
    return tensors;
  }
  static Json give(const std::string& prefix, const Tensors& tensors) {
    Json names = Json::array();
    for (const auto& [name, tensor] : tensors) {
      stages::give_to_python(prefix + name, tensor);
      names.push_back(name);
    }
    return names;
  }

  Json answer(const Json& request) {
    const std::string asked = request.at("do");
    if (asked == "make_step") return {{"encodes", bool(encode)}, {"scores", bool(score)}};
    if (asked == "encode")
      return {{"encoded", give("encoded:", encode(given("batch:", request.at("batch"))))}};
    if (asked == "measure") {
      return {{"metrics", measure(request, stages::taken_from_python("outputs"),
                                  stages::taken_from_python("targets"))}};
    }
    if (asked != "loss" && asked != "score") return Json::object();
    const Tensors encoded = given("encoded:", request.at("encoded")),
                  batch = given("batch:", request.at("batch"));
    if (asked == "score") return {{"scores", give("score:", score(encoded, batch))}};
    stages::give_to_python("loss", loss(encoded, batch));
    return Json::object();
  }
};
