-- Measures what a call of the router costs from LuaJIT beyond the call itself: router:route, minus a
-- call by FFI of the same kind that does nothing, minus the same calls made from C.

local ffi = require("ffi")
local prefixrouter = require("prefixrouter")

ffi.cdef([[
int32_t probe_noop(prefix_router* router, const uint32_t* tokens, size_t token_count,
                   uint64_t* instance);
double probe_now_nanos(void);
double probe_route_nanos(prefix_router* router, const uint32_t* prompts, size_t prompt_count,
                         size_t token_count, size_t calls);
double probe_cached_share(const prefix_router* router);
]])
local probe = ffi.load("prefix_router_probe")

local INSTANCES = 64
local PROMPT_TOKENS = 256
local PROMPTS = 64
local CALLS = 10 * PROMPTS -- a measurement
local REPETITIONS = 301

local function median(values)
  table.sort(values)
  return values[math.ceil(#values / 2)]
end

local router = assert(prefixrouter.new())
for i = 1, INSTANCES do
  assert(router:add_instance("instance-" .. i))
end
-- Prompts that differ from their first block on.
local prompts = ffi.new("uint32_t[?]", PROMPTS * PROMPT_TOKENS)
for i = 0, PROMPTS * PROMPT_TOKENS - 1 do
  prompts[i] = i
end

local function route()
  local begin = probe.probe_now_nanos()
  for i = 0, CALLS - 1 do
    assert(router:route(prompts + i % PROMPTS * PROMPT_TOKENS, PROMPT_TOKENS))
  end
  return (probe.probe_now_nanos() - begin) / CALLS
end

local instance = ffi.new("uint64_t[1]")
local function noop()
  local begin = probe.probe_now_nanos()
  for i = 0, CALLS - 1 do
    local prompt = prompts + i % PROMPTS * PROMPT_TOKENS
    assert(probe.probe_noop(router.handle, prompt, PROMPT_TOKENS, instance) == 0)
  end
  return (probe.probe_now_nanos() - begin) / CALLS
end

local function route_from_c()
  local nanos = probe.probe_route_nanos(router.handle, prompts, PROMPTS, PROMPT_TOKENS, CALLS)
  assert(nanos > 0, "routing from C failed")
  return nanos
end

local overheads, routes, noops, from_c = {}, {}, {}, {}
for i = 0, REPETITIONS do
  local a, b, c = route(), noop(), route_from_c()
  if i > 0 then -- the first one warmed up
    overheads[i], routes[i], noops[i], from_c[i] = a - b - c, a, b, c
  end
end
local share = probe.probe_cached_share(router.handle)
assert(share > 0.9, ("only %g of the tokens were known"):format(share))
print(("# cgo_overhead_ns LuaJIT: overhead %.1f ns; route %.1f ns, a call that does nothing %.1f ns, "
  .. "the same route from C %.1f ns"):format(
  median(overheads), median(routes), median(noops), median(from_c)))
