// Carries out eager programs. A statement is decoded once and then run as often as its loop says, because the time
// between two ops decides whether a background compile overtakes them.
#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include "ir/op.h"
#include "ir/slice.h"
#include "tests/random/eager.h"
#include "tests/random/eager_call.h"
#include "tests/random/rng.h"

namespace tessera::random {
namespace {

using ir::Op;

// Stands for B in decoded lists.
constexpr int64_t kShapeB = ir::kSymbolBase + 77;
constexpr int kBrokenAfter = 3;
constexpr int64_t kMostElements = 1 << 18;

[[noreturn]] void Bad(const std::string& text) { throw std::runtime_error("not a statement: " + text); }

struct Name {
  char kind = 0;  // s, t or p
  size_t index = 0;
};

struct Input {
  enum class Kind { name, boolean, integer, floating, changing } kind = Kind::name;
  Name name;
  int64_t integer = 0;
  double floating = 0, step = 0;
  int64_t period = 1;
};

// clang-format off
enum class Do { op, update, copy, move, drop, write, host, layer, loop, if_, every, try_, read, item, vec, view, dims,
                string, shares, async, join, stop, return_ };
// clang-format on

struct Node {
  Do what = Do::op;
  std::string text;
  Op op = Op::k_add;
  std::vector<Name> results;
  std::vector<Input> inputs;
  std::vector<ir::Attr> attrs;
  int site = 0;
  int64_t a = 0, b = 0;
  double number = 0;
  DType dtype = DType::f32;
  std::vector<Node> body, otherwise;
  std::vector<size_t> locals;  // of the body: they die with it
  int64_t runs = 0;            // for the broken executor
};

std::optional<Name> ParseName(const std::string& word) {
  if (word.size() < 2 || (word[0] != 's' && word[0] != 't' && word[0] != 'p')) return {};
  if (!std::all_of(word.begin() + 1, word.end(), [](char c) { return c >= '0' && c <= '9'; })) return {};
  return Name{word[0], static_cast<size_t>(std::stoul(word.substr(1)))};
}

int64_t ParseInt(const std::string& word) {
  if (word == "B") return kShapeB;
  if (word == "end") return ir::kSliceEnd;
  if (word == "first") return ir::kSliceThroughFirst;
  return std::stoll(word);
}

ir::Ints ParseInts(const std::string& text) {
  ir::Ints list;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    list.push_back(ParseInt(text.substr(at, end - at)));
    at = end + 1;
  }
  return list;
}

Input ParseInput(const std::string& word) {
  Input in;
  if (const std::optional<Name> name = ParseName(word)) {
    in.name = *name;
  } else if (word == "true" || word == "false") {
    in.kind = Input::Kind::boolean;
    in.integer = word == "true";
  } else if (word[0] == '~') {
    in.kind = Input::Kind::changing;
    const size_t one = word.find(','), two = word.find(',', one + 1);
    in.floating = std::stod(word.substr(1, one - 1));
    in.step = std::stod(word.substr(one + 1, two - one - 1));
    in.period = std::max<int64_t>(1, std::stoll(word.substr(two + 1)));
  } else if (word.find_first_of(".einf") != std::string::npos) {
    in.kind = Input::Kind::floating;
    in.floating = std::stod(word);
  } else {
    in.kind = Input::Kind::integer;
    in.integer = std::stoll(word);
  }
  return in;
}

ir::Attr ParseAttr(const ir::AttrSpec& spec, const std::string& text) {
  switch (spec.type) {
    case ir::AttrType::t_bool: return text == "1";
    case ir::AttrType::t_int: return ParseInt(text);
    case ir::AttrType::t_float: return std::stod(text);
    case ir::AttrType::t_dtype: return ParseDType(text).value();
    case ir::AttrType::t_ints: return ParseInts(text);
    default: return text;
  }
}

// ---- decoding

Node Decode(const Stmt& stmt);

void DecodeBlock(const std::vector<Stmt>& block, std::vector<Node>& nodes, std::vector<size_t>& locals) {
  for (const Stmt& s : block) {
    nodes.push_back(Decode(s));
    for (const Name& n : nodes.back().results)
      if (n.kind == 't') locals.push_back(n.index);
  }
}

void DecodeOp(Node& node, const std::vector<std::string>& words, size_t at) {
  const std::optional<Op> op = ir::FindOp(words[at]);
  if (!op) Bad(node.text);
  node.op = *op;
  const ir::OpInfo& info = ir::Info(*op);
  node.attrs.resize(info.attrs.size());
  for (size_t i = at + 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const size_t equals = word.find('=');
    if (word[0] == '@') {
      node.site = std::stoi(word.substr(1));
    } else if (equals != std::string::npos) {
      const int attr = ir::FindAttr(info, word.substr(0, equals));
      if (attr < 0) Bad(node.text);
      node.attrs[static_cast<size_t>(attr)] = ParseAttr(info.attrs[static_cast<size_t>(attr)], word.substr(equals + 1));
    } else {
      node.inputs.push_back(ParseInput(word));
    }
  }
  if (!ir::CompleteAttrs(info, absl::MakeSpan(node.attrs)).ok()) Bad(node.text);
}

void DecodeAssignment(Node& node, const std::vector<std::string>& words) {
  size_t at = 0;
  for (; words[at] != "="; ++at) {
    const std::optional<Name> name = ParseName(words[at]);
    if (!name) Bad(node.text);
    node.results.push_back(*name);
  }
  ++at;
  if (at >= words.size()) Bad(node.text);
  const std::string& head = words[at];
  if (head == "host") {
    node.what = Do::host;
    for (size_t i = at + 1; i < words.size(); ++i) {
      if (words[i].starts_with("dims=")) {
        node.attrs = {ParseInts(words[i].substr(5))};
      } else if (words[i].starts_with("seed=")) {
        node.a = std::stoll(words[i].substr(5));
      } else {
        node.dtype = ParseDType(words[i]).value();
      }
    }
    if (node.attrs.empty()) Bad(node.text);
  } else if (head == "layer") {
    node.what = Do::layer;
    node.a = std::stoll(words.at(at + 1));
    for (size_t i = at + 2; i < words.size(); ++i) node.inputs.push_back(ParseInput(words[i]));
  } else if (head == "move" || ParseName(head)) {
    node.what = head == "move" ? Do::move : Do::copy;
    node.inputs.push_back(ParseInput(words.back()));
  } else {
    DecodeOp(node, words, at);
  }
}

Node Decode(const Stmt& stmt) {
  static const std::vector<std::pair<std::string, Do>> kWords = {
      {"loop", Do::loop}, {"if", Do::if_},        {"every", Do::every}, {"try", Do::try_},      {"read", Do::read},
      {"item", Do::item}, {"vec", Do::vec},       {"view", Do::view},   {"dims", Do::dims},     {"string", Do::string},
      {"drop", Do::drop}, {"stop", Do::stop},     {"write", Do::write}, {"shares", Do::shares}, {"async", Do::async},
      {"join", Do::join}, {"return", Do::return_}};
  Node node;
  node.text = stmt.text;
  const std::vector<std::string> words = SplitWords(stmt.text);
  if (std::find(words.begin(), words.end(), "=") != words.end()) {
    DecodeAssignment(node, words);
    return node;
  }
  if (words.size() >= 3 && words[1].size() == 2 && words[1][1] == '=') {
    static const std::string kSigns = "+-*/";
    static constexpr Op kOps[] = {Op::k_add, Op::k_sub, Op::k_mul, Op::k_div};
    const size_t sign = kSigns.find(words[1][0]);
    const std::optional<Name> name = ParseName(words[0]);
    if (sign == std::string::npos || !name) Bad(stmt.text);
    node.what = Do::update;
    node.op = kOps[sign];
    node.results = {*name};
    node.inputs = {ParseInput(words[2])};
    if (words.size() > 3) node.site = std::stoi(words[3].substr(1));
    return node;
  }
  const auto known = std::find_if(kWords.begin(), kWords.end(), [&](const auto& w) { return w.first == words[0]; });
  if (known == kWords.end()) Bad(stmt.text);
  node.what = known->second;
  switch (node.what) {
    case Do::loop:
    case Do::stop: node.a = std::stoll(words.at(1)); break;
    case Do::every: node.a = std::max<int64_t>(1, std::stoll(words.at(1))), node.b = std::stoll(words.at(2)); break;
    case Do::write: node.a = std::stoll(words.at(2)), node.number = std::stod(words.at(3)); [[fallthrough]];
    case Do::drop: node.inputs.push_back(ParseInput(words.at(1))); break;
    case Do::try_:
    case Do::join: break;
    default:
      for (size_t i = 1; i < words.size(); ++i) node.inputs.push_back(ParseInput(words[i]));
      if (node.inputs.empty()) Bad(stmt.text);
  }
  for (const Input& in : node.inputs)
    if (in.kind != Input::Kind::name) Bad(stmt.text);
  if (node.what == Do::shares && node.inputs.size() != 2) Bad(stmt.text);
  DecodeBlock(stmt.body, node.body, node.locals);
  DecodeBlock(stmt.otherwise, node.otherwise, node.locals);
  return node;
}

// ---- running

struct Frame {
  std::vector<Tensor> locals, params;
  Tensor result;
};

class Executor {
 public:
  explicit Executor(bool broken) : broken_(broken) {}

  Log Run(const std::vector<Stmt>& program) {
    for (const Stmt& s : program) {
      const std::vector<std::string> words = SplitWords(s.text);
      if (words[0] == "shape") {
        shapes_.clear();
        for (size_t i = 2; i < words.size() && words[i] != "every"; ++i) shapes_.push_back(std::stoll(words[i]));
        period_ = std::max<int64_t>(1, std::stoll(words.back()));
      } else if (words[0] == "layer") {
        const auto index = static_cast<size_t>(std::stoul(words.at(1)));
        if (index >= layers_.size()) layers_.resize(index + 1);
        Node& layer = layers_[index];
        DecodeBlock(s.body, layer.body, layer.locals);
        layer.a = std::stoll(words.at(2));
      } else {
        main_.push_back(Decode(s));
      }
    }
    if (shapes_.empty()) shapes_.push_back(3);
    Frame frame;
    RunBlock(main_, frame, false);
    Join();
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].defined()) log_.push_back("end s" + std::to_string(i) + " " + Look(slots_[i]));
    }
    return std::move(log_);
  }

 private:
  enum class Flow { on, stop, leave };

  Tensor& At(Frame& frame, const Name& name) {
    std::vector<Tensor>& list = name.kind == 's' ? slots_ : name.kind == 't' ? frame.locals : frame.params;
    if (name.index >= list.size()) list.resize(name.index + 1);
    return list[name.index];
  }

  int64_t ShapeB() const { return shapes_[static_cast<size_t>(outer_ / period_) % shapes_.size()]; }

  Arg ArgOf(Frame& frame, const Input& in) {
    switch (in.kind) {
      case Input::Kind::name: return Arg(At(frame, in.name));
      case Input::Kind::boolean: return Arg(in.integer != 0);
      case Input::Kind::integer: return Arg(in.integer);
      case Input::Kind::floating: return Arg(in.floating);
      case Input::Kind::changing: return Arg(in.floating + in.step * static_cast<double>(tick_ / in.period));
    }
    return Arg();
  }

  static std::string Look(const Tensor& x) {
    return Literal(x) + (x.is_contiguous() ? "" : " strided") + (x.rank() > 0 ? " " + Numbers(x.strides()) : "");
  }
  static std::string Numbers(const Dims& dims) {
    std::string text = "[";
    for (int64_t d : dims) text += (text.size() > 1 ? "," : "") + std::to_string(d);
    return text + "]";
  }

  void Say(const Node& node, const std::string& what) { log_.push_back(node.text + ": " + what); }

  Flow RunBlock(std::vector<Node>& block, Frame& frame, bool unwinds) {
    for (Node& node : block) {
      if (unwinds) {
        if (const Flow flow = RunNode(node, frame, true); flow != Flow::on) return flow;
        continue;
      }
      try {
        if (const Flow flow = RunNode(node, frame, false); flow != Flow::on) return flow;
      } catch (const Error& e) {
        Say(node, "error " + std::to_string(static_cast<int>(e.code())) + " " + e.what());
      }
    }
    return Flow::on;
  }

  void Forget(const std::vector<size_t>& locals, Frame& frame) {
    for (size_t t : locals)
      if (t < frame.locals.size()) frame.locals[t] = Tensor();
  }

  // The locals of a block die with it, an error included, as those of C++ do.
  Flow RunBody(std::vector<Node>& body, const Node& owner, Frame& frame, bool unwinds) {
    try {
      const Flow flow = RunBlock(body, frame, unwinds);
      Forget(owner.locals, frame);
      return flow;
    } catch (const Error&) {
      Forget(owner.locals, frame);
      throw;
    }
  }

  Flow RunLoop(Node& node, Frame& frame, bool unwinds) {
    const int64_t tick = tick_;
    const bool outermost = depth_++ == 0;
    Flow flow = Flow::on;
    struct Restore {
      Executor* e;
      int64_t tick;
      ~Restore() { e->tick_ = tick, --e->depth_; }
    } restore{this, tick};
    for (int64_t i = 0; i < node.a && flow == Flow::on; ++i) {
      tick_ = i;
      if (outermost) outer_ = i;
      flow = RunBody(node.body, node, frame, unwinds);
    }
    return flow == Flow::stop ? Flow::on : flow;
  }

  Flow RunNode(Node& node, Frame& frame, bool unwinds) {
    switch (node.what) {
      case Do::op: RunOp(node, frame); break;
      case Do::update: {
        At(frame, node.results[0]);  // growing the list first keeps the pointer that the Arg holds
        const Arg y = ArgOf(frame, node.inputs[0]);
        UpdateAt(node.site, node.op, At(frame, node.results[0]), y);
        break;
      }
      case Do::copy: {
        const Tensor x = At(frame, node.inputs[0].name);
        At(frame, node.results[0]) = x;
        break;
      }
      case Do::move: {
        Tensor x = std::move(At(frame, node.inputs[0].name));
        At(frame, node.results[0]) = std::move(x);
        break;
      }
      case Do::drop: At(frame, node.inputs[0].name) = Tensor(); break;
      case Do::write: Write(At(frame, node.inputs[0].name), node); break;
      case Do::host: {
        Tensor x = FromHost(node);
        At(frame, node.results[0]) = std::move(x);
        break;
      }
      case Do::layer: RunLayer(node, frame, unwinds); break;
      case Do::loop: return RunLoop(node, frame, unwinds);
      case Do::if_: {
        const bool yes = At(frame, node.inputs[0].name).item<double>() > 0;
        Say(node, yes ? "yes" : "no");
        return RunBody(yes ? node.body : node.otherwise, node, frame, unwinds);
      }
      case Do::every:
        if (tick_ % node.a == node.b) return RunBody(node.body, node, frame, unwinds);
        break;
      case Do::try_: try { return RunBody(node.body, node, frame, true);
        } catch (const Error& e) {
          Say(node, "caught " + std::string(e.what()));
        }
        break;
      case Do::stop: return tick_ == node.a ? Flow::stop : Flow::on;
      case Do::return_: frame.result = At(frame, node.inputs[0].name); return Flow::leave;
      case Do::async: Async(At(frame, node.inputs[0].name)); break;
      case Do::join: Join(); break;
      default: Observe(node, frame); break;
    }
    return Flow::on;
  }

  void RunOp(Node& node, Frame& frame) {
    // Growing the lists first keeps the pointers that Args hold.
    for (const Input& in : node.inputs)
      if (in.kind == Input::Kind::name) At(frame, in.name);
    for (const Name& n : node.results) At(frame, n);
    std::vector<Arg> args;
    for (const Input& in : node.inputs) args.push_back(ArgOf(frame, in));
    const bool symbolic = std::any_of(node.attrs.begin(), node.attrs.end(), [](const ir::Attr& a) {
      const ir::Ints* ints = std::get_if<ir::Ints>(&a);
      return ints != nullptr && std::find(ints->begin(), ints->end(), kShapeB) != ints->end();
    });
    std::vector<ir::Attr> attrs;
    if (symbolic) {
      attrs = node.attrs;
      for (ir::Attr& a : attrs)
        if (ir::Ints* ints = std::get_if<ir::Ints>(&a)) std::replace(ints->begin(), ints->end(), kShapeB, ShapeB());
    }
    const bool wrong = broken_ && node.op == Op::k_tanh && ++node.runs > kBrokenAfter;
    std::vector<Tensor> results = CallAt(node.site, {wrong ? Op::k_sin : node.op, args, symbolic ? attrs : node.attrs});
    for (size_t i = 0; i < results.size() && i < node.results.size(); ++i) {
      // A value joined to itself in a loop would fill the memory; the program takes that as an error of the op.
      if (results[i].size() > kMostElements)
        throw Error(Status(Code::resource_exhausted, "more elements than a program here may have"));
      At(frame, node.results[i]) = std::move(results[i]);
    }
  }

  void RunLayer(Node& node, Frame& frame, bool unwinds) {
    const auto index = static_cast<size_t>(node.a);
    if (index >= layers_.size()) return;
    Node& layer = layers_[index];
    Tensor result;
    {
      Frame inner;
      inner.params.resize(static_cast<size_t>(layer.a));
      for (size_t i = 0; i < node.inputs.size() && i < inner.params.size(); ++i)
        inner.params[i] = At(frame, node.inputs[i].name);
      RunBlock(layer.body, inner, unwinds);
      result = std::move(inner.result);
    }
    At(frame, node.results[0]) = std::move(result);
  }

  Tensor FromHost(const Node& node) {
    ir::Ints list = std::get<ir::Ints>(node.attrs[0]);
    std::replace(list.begin(), list.end(), kShapeB, ShapeB());
    const Dims dims(std::vector<int64_t>(list.begin(), list.end()));
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    Rng rng(static_cast<uint64_t>(node.a * 1000 + tick_));
    std::vector<float> values;
    for (int64_t i = 0; i < n; ++i) {
      values.push_back(IsFloat(node.dtype) ? static_cast<float>(rng.Real(-2, 2))
                                           : static_cast<float>(rng.Between(0, 5)));
    }
    const Tensor x = Tensor::from(values, dims);
    return node.dtype == DType::f32 ? x : x.cast(node.dtype);
  }

  void Write(Tensor& x, const Node& node) {
    const auto set = [&](auto view) {
      if (view.size() > 0)
        view[static_cast<size_t>(node.a) % view.size()] = static_cast<std::decay_t<decltype(view[0])>>(node.number);
    };
    switch (x.dtype()) {
      case DType::f32: return set(x.write<float>());
      case DType::f64: return set(x.write<double>());
      case DType::i64: return set(x.write<int64_t>());
      case DType::i32: return set(x.write<int32_t>());
      default: break;
    }
  }

  void Observe(const Node& node, Frame& frame) {
    for (const Input& in : node.inputs) At(frame, in.name);
    const Tensor& x = At(frame, node.inputs[0].name);
    switch (node.what) {
      case Do::read: return Say(node, Look(x));
      case Do::item: return Say(node, Literal(Tensor::scalar(x.item<double>())));
      case Do::vec: return Say(node, Literal(Tensor::from(x.to_vector<double>())));
      case Do::view: {
        if (x.dtype() != DType::f32) return Say(node, Literal(x));
        const ReadView<float> view = x.read<float>();
        return Say(node, Literal(Tensor::from(std::vector<float>(view.begin(), view.end()))));
      }
      case Do::dims:
        return Say(node, std::string(tessera::Name(x.dtype())) + Numbers(x.dims()) + Numbers(x.strides()) +
                             (x.is_contiguous() ? " contiguous" : ""));
      case Do::string: return Say(node, x.to_string());
      default: return Say(node, x.shares_storage_with(At(frame, node.inputs[1].name)) ? "yes" : "no");
    }
  }

  // ---- the second thread: it has a handle of its own; what it saw is logged where it is joined

  void Async(const Tensor& x) {
    auto seen = std::make_shared<std::string>();
    threads_.emplace_back(std::thread([x, seen] {
                            try {
                              *seen = Literal(x);
                            } catch (const Error& e) {
                              *seen = e.what();
                            }
                          }),
                          seen);
  }
  void Join() {
    for (auto& [thread, seen] : threads_) {
      thread.join();
      log_.push_back("thread: " + *seen);
    }
    threads_.clear();
  }

  const bool broken_;
  Log log_;
  std::vector<Tensor> slots_;
  std::vector<Node> main_;
  std::vector<Node> layers_;
  std::vector<int64_t> shapes_;
  int64_t period_ = 1, tick_ = 0, outer_ = 0;
  int depth_ = 0;
  std::vector<std::pair<std::thread, std::shared_ptr<std::string>>> threads_;
};

}  // namespace

Log EagerProgram::Run(bool broken) const { return Executor(broken).Run(body_); }

}  // namespace tessera::random
