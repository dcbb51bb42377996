// What every part and view is written with: components, hooks and the template tag.
import { Component, Fragment, createContext, h, render } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export {
  useCallback,
  useContext,
  useEffect,
  useErrorBoundary,
  useId,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from "../vendor/hooks.js";
export { Component, Fragment, createContext, render };

/** Template tag that makes elements. Text is always text: nothing here is ever parsed as HTML. */
export const html = htm.bind(h);

/** Class names that apply: `classes("row", busy && "busy")`. */
export const classes = (...names) => names.filter(Boolean).join(" ");
